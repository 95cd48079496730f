-- Starts one instance in the caller's transaction. Answers its id, or the holder of its key.
--
-- $1 machine  $2 version  $3 step  $4 state  $5 queue  $6 priority  $7 delay in µs
-- $8 time in µs, or null  $9 partition key  $10 correlation key  $11 scope as an array literal
-- $12 trace  $13 timeout in µs, or null  $14 timeout of a run in µs, or null
-- locks   the key, until the caller's transaction ends
-- index   instances_correlation
-- bound   one row
select id, holder
  from outlast.insert_one($1::text, $2::integer, $3::text, $4::text::json, $5::text, $6::smallint,
                          $7::bigint, $8::bigint, $9::text, $10::text, $11::text::text[], $12::text,
                          $13::bigint, $14::bigint)
