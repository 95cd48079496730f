-- Sends one signal in the caller's transaction. Answers as outlast.deliver_one does.
--
-- $1 target id, or null and $2 machine  $3 correlation key;  $4 name  $5 payload  $6 dedup key
-- $7 how many unconsumed signals an inbox may hold  $8 whether it is an update
-- guard   the target has not finished
-- locks   the target, until the caller's transaction ends
-- index   instances_pkey, instances_correlation, signals_dedup, signals_inbox
-- bound   INBOX_MAX
select answer, id, instance, woke, queue
  from outlast.deliver_one($1::bigint, $2::text, $3::text, $4::text, $5::text::json, $6::text, $7::bigint,
                            $8::boolean)
