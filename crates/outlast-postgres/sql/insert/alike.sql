-- Inserts instances that differ only in their state and have no correlation key.
--
-- $1 states;  for all: $2 machine  $3 version  $4 step  $5 queue  $6 priority  $7 delay in µs
-- $8 time in µs, or null  $9 partition key  $10 trace  $11 timeout in µs, or null
-- $12 timeout of a run in µs, or null
-- locks   none
-- index   none
-- bound   BATCH_MAX
--
-- Most batches use this statement. Such rows cannot conflict. So it needs no order of keys, and no
-- second WAL record per row for the case of a conflict, as insert/insert.sql does. Ids are
-- assigned in the caller's order before anything is written. Answers one row with all ids.
with
clock as materialized (
    select outlast.now() as now
),
start as materialized (
    select k.now,
           coalesce(timestamptz 'epoch' + $8::bigint * interval '1 microsecond',
                    k.now + $7::bigint * interval '1 microsecond') as eligible_at
      from clock k
),
given as materialized (
    select array(select nextval('outlast.instances_id_seq')
                   from generate_series(1, cardinality($1::text[]))) as ids
),
inserted as (
    insert into outlast.instances
           (id, machine, machine_version, step, state, status, queue, priority, eligible_at, partition_key, trace,
            timeout_us, run_timeout_us, timeout_at, run_timeout_at, inserted_at, updated_at)
    select n.id, $2, $3::integer, $4, n.state::json, 'runnable', $5, $6::smallint, s.eligible_at, $9::text,
           $10::text, $11::bigint, $12::bigint,
           -- A start in the past does not shorten a timeout.
           greatest(s.eligible_at, s.now) + $11::bigint * interval '1 microsecond',
           greatest(s.eligible_at, s.now) + $12::bigint * interval '1 microsecond', s.now, s.now
      from start s
     cross join given g
     cross join lateral unnest(g.ids, $1) as n (id, state)
)
select g.ids, s.eligible_at <= s.now as eligible
  from given g
 cross join start s
