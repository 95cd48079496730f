-- Brings in instances that differ in nothing but their state, and have no correlation key.
--
-- $1 states;  for all: $2 machine  $3 version  $4 step  $5 queue  $6 priority  $7 delay in µs
-- $8 moment in µs, or null  $9 partition key  $10 trace
-- locks   none   index none   bound BATCH_MAX
--
-- What most batches are. Nothing can be in the way of such rows, so they need none of what insert/insert.sql
-- does for the others: no order of keys, and no second record of each row in the log for the case of a
-- conflict. Ids are given in the caller's order, before anything is written. Answers one row, with all of them.
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
            inserted_at, updated_at)
    select n.id, $2, $3::integer, $4, n.state::json, 'runnable', $5, $6::smallint, s.eligible_at, $9::text,
           $10::text, s.now, s.now
      from start s
     cross join given g
     cross join lateral unnest(g.ids, $1) as n (id, state)
)
select g.ids, s.eligible_at <= s.now as eligible
  from given g
 cross join start s
