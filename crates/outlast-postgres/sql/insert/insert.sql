-- Inserts instances.
--
-- $1 the worker to claim for, or null, and per row: $2 machine  $3 version  $4 step  $5 state
-- $6 queue  $7 priority  $8 delay in µs  $9 time in µs, or null  $10 partition key
-- $11 correlation key  $12 scope as an array literal  $13 trace  $14 timeout in µs, or null
-- $15 timeout of a run in µs, or null
-- guard   with a worker: its lease is alive
-- locks   the worker's row, shared, so that it is not reaped before its claims are written; keys,
--         in their order, so that two batches of the same keys cannot deadlock (docs/protocol.md,
--         defect 7)
-- index   instances_correlation, workers_pkey, queues_pkey
-- bound   BATCH_MAX
--
-- Ids are assigned in the caller's order before the rows are sorted. Answers in that order.
with
clock as materialized (
    select outlast.now() as now
),
worker as materialized (
    select w.id
      from outlast.workers w
     where w.id = $1::bigint and w.lease_expires_at > (select now from clock)
       for key share
),
given as materialized (
    select nextval('outlast.instances_id_seq') as id, c.*,
           coalesce(timestamptz 'epoch' + c.at_us * interval '1 microsecond',
                    (select now from clock) + c.delay_us * interval '1 microsecond') as eligible_at
      from unnest($2::text[], $3::integer[], $4::text[], $5::text[], $6::text[], $7::smallint[],
                  $8::bigint[], $9::bigint[], $10::text[], $11::text[], $12::text[], $13::text[],
                  $14::bigint[], $15::bigint[])
        as c (machine, machine_version, step, state, queue, priority, delay_us, at_us, partition_key,
              correlation_key, scope, trace, timeout_us, run_timeout_us)
     where $1 is null or exists (select from worker)
),
-- Rows that the worker may run at once: eligible, without a partition key, and in an active queue.
placed as materialized (
    select g.*,
           $1 is not null
               and g.eligible_at <= (select now from clock)
               and g.partition_key is null
               and (g.scope is null or 'executing' = any (g.scope::text[]))
               and not exists (select from outlast.queues q where q.name = g.queue offset 0) as claimed
      from given g
),
inserted as (
    insert into outlast.instances
           (id, machine, machine_version, step, state, status, revision, locked_by, queue, priority, eligible_at,
            partition_key, correlation_key, correlation_scope, correlation_guard, trace,
            timeout_us, run_timeout_us, timeout_at, run_timeout_at, inserted_at, updated_at)
    select p.id, p.machine, p.machine_version, p.step, p.state::json,
           case when p.claimed then 'executing' else 'runnable' end,
           case when p.claimed then 1 else 0 end,
           case when p.claimed then $1 end,
           p.queue, p.priority, p.eligible_at, p.partition_key, p.correlation_key, p.scope::text[],
           p.correlation_key, p.trace,
           -- A start in the past does not shorten a timeout.
           p.timeout_us, p.run_timeout_us,
           greatest(p.eligible_at, (select now from clock)) + p.timeout_us * interval '1 microsecond',
           greatest(p.eligible_at, (select now from clock)) + p.run_timeout_us * interval '1 microsecond',
           (select now from clock), (select now from clock)
      from placed p
     order by p.machine, p.correlation_key, p.id
        on conflict (machine, correlation_guard) where correlation_guard is not null do nothing
    returning id
)
select p.id,
       p.id in (select n.id from inserted n) as is_new,
       p.claimed,
       p.eligible_at <= (select now from clock) as eligible
  from placed p
 order by p.id
