-- Inserts the children of fan-outs.
--
-- $1 parent ids  $2 parent revisions, and per child: $3 fsm  $4 version  $5 step  $6 state  $7 queue
-- $8 priority  $9 delay in µs  $10 moment in µs, or null  $11 partition key  $12 correlation key
-- $13 scope as an array literal  $14 trace
-- guard   the parent's fence   locks keys, in their order
-- index   instances_pkey, instances_correlation   bound CHILDREN_MAX
--
-- Ids are given in the caller's order before anything is sorted, so that children are known by it.
with
clock as materialized (
    select outlast.now() as now
),
given as materialized (
    select nextval('outlast.instances_id_seq') as id, c.*
      from unnest($1::bigint[], $2::bigint[], $3::text[], $4::integer[], $5::text[], $6::text[], $7::text[],
                  $8::smallint[], $9::bigint[], $10::bigint[], $11::text[], $12::text[], $13::text[],
                  $14::text[])
        as c (parent_id, parent_revision, fsm, fsm_version, step, state, queue, priority, delay_us, at_us,
              partition_key, correlation_key, scope, trace)
)
insert into outlast.instances
       (id, fsm, fsm_version, step, state, status, queue, priority, eligible_at, partition_key,
        parent_id, parent_round, correlation_key, correlation_scope, correlation_guard, trace,
        inserted_at, updated_at)
select g.id, g.fsm, g.fsm_version, g.step, g.state::json, 'runnable', g.queue, g.priority,
       coalesce(timestamptz 'epoch' + g.at_us * interval '1 microsecond',
                k.now + g.delay_us * interval '1 microsecond'),
       g.partition_key, p.id, p.round + 1, g.correlation_key, g.scope::text[], g.correlation_key,
       g.trace, k.now, k.now
  from given g
  join outlast.instances p on p.id = any (array[g.parent_id])
                             and p.revision = g.parent_revision and p.status = 'executing'
 cross join clock k
 order by g.fsm, g.correlation_key, g.id
    on conflict (fsm, correlation_guard) where correlation_guard is not null do nothing
returning queue, eligible_at <= (select now from clock) as eligible
