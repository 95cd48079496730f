-- Brings instances in that have no correlation key, for nobody in particular.
--
-- Per row: $1 fsm  $2 version  $3 step  $4 state  $5 queue  $6 priority  $7 delay in µs  $8 moment in µs, or null
-- $9 partition key  $10 trace
-- locks   none   index none   bound BATCH_MAX
--
-- Nothing can be in the way of such rows, so they need none of what insert/insert.sql does for the others: no
-- order of keys, and no second record of each row in the log for the case of a conflict. Ids are given in
-- the caller's order. Answers in that order, with the queue when something may be claimed there now.
with
clock as materialized (
    select outlast.now() as now
)
insert into outlast.instances
       (id, fsm, fsm_version, step, state, status, queue, priority, eligible_at, partition_key, trace,
        inserted_at, updated_at)
select nextval('outlast.instances_id_seq'), n.fsm, n.fsm_version, n.step, n.state::json, 'runnable', n.queue,
       n.priority,
       case when n.at_us is not null then timestamptz 'epoch' + n.at_us * interval '1 microsecond'
            when n.delay_us > 0 then k.now + n.delay_us * interval '1 microsecond'
            else k.now end,
       n.partition_key, n.trace, k.now, k.now
  from unnest($1::text[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::smallint[], $7::bigint[],
              $8::bigint[], $9::text[], $10::text[])
    as n (fsm, fsm_version, step, state, queue, priority, delay_us, at_us, partition_key, trace)
 cross join clock k
returning id, eligible_at <= inserted_at as eligible
