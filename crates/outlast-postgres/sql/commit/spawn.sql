-- Inserts the children of fan-outs and of workflows.
--
-- $1 parent ids  $2 parent revisions, and per child: $3 machine  $4 version  $5 step  $6 state
-- $7 queue  $8 priority  $9 delay in µs  $10 time in µs, or null  $11 partition key
-- $12 correlation key  $13 scope as an array literal  $14 trace  $15 timeout in µs, or null
-- $16 timeout of a run in µs, or null  $17 position  $18 policy, or null
-- $19 whether it waits for a slot in a window, or null  $20 whether the parent answers a cancel
-- guard   the parent's fence, and that it has no unanswered cancel
-- locks   correlation keys, in their order
-- index   instances_pkey, instances_correlation
-- bound   CHILDREN_MAX
--
-- Ids are assigned in the caller's order before the rows are sorted, so that the ids identify the
-- children. commit/lock.sql has locked the parent. A cancel that came before is visible, and no
-- child is started. A later cancel waits, and finds the parent with these children.
with
clock as materialized (
    select outlast.now() as now
),
given as materialized (
    select nextval('outlast.instances_id_seq') as id, c.*
      from unnest($1::bigint[], $2::bigint[], $3::text[], $4::integer[], $5::text[], $6::text[], $7::text[],
                  $8::smallint[], $9::bigint[], $10::bigint[], $11::text[], $12::text[], $13::text[],
                  $14::text[], $15::bigint[], $16::bigint[], $17::integer[], $18::text[], $19::boolean[],
                  $20::boolean[])
        as c (parent_id, parent_revision, machine, machine_version, step, state, queue, priority, delay_us, at_us,
              partition_key, correlation_key, scope, trace, timeout_us, run_timeout_us, position, policy, held,
              answers)
),
starting as materialized (
    select g.*,
           coalesce(timestamptz 'epoch' + g.at_us * interval '1 microsecond',
                    k.now + g.delay_us * interval '1 microsecond') as eligible_at
      from given g
     cross join clock k
)
insert into outlast.instances
       (id, machine, machine_version, step, state, status, queue, priority, eligible_at, partition_key,
        parent_id, parent_round, parent_position, on_parent_close, held, blocked,
        correlation_key, correlation_scope, correlation_guard, trace,
        timeout_us, run_timeout_us, timeout_at, run_timeout_at, inserted_at, updated_at)
select g.id, g.machine, g.machine_version, g.step, g.state::json, 'runnable', g.queue, g.priority, g.eligible_at,
       g.partition_key, p.id, p.round + 1, g.position, g.policy, g.held, coalesce(g.held, false),
       g.correlation_key, g.scope::text[], g.correlation_key, g.trace,
       -- A start in the past does not shorten a timeout.
       g.timeout_us, g.run_timeout_us,
       greatest(g.eligible_at, k.now) + g.timeout_us * interval '1 microsecond',
       greatest(g.eligible_at, k.now) + g.run_timeout_us * interval '1 microsecond', k.now, k.now
  from starting g
  join outlast.instances p on p.id = any (array[g.parent_id])
                             and p.revision = g.parent_revision and p.status = 'executing'
                             and (p.cancel_requested_at is null or p.cancel_answered or g.answers)
 cross join clock k
 order by g.machine, g.correlation_key, g.id
    on conflict (machine, correlation_guard) where correlation_guard is not null do nothing
returning queue, not blocked and eligible_at <= (select now from clock) as eligible
