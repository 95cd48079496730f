-- claim/claim: sets rows aside behind whoever executes, without holding that one. Its commit may already
-- have let through whom it saw. Nor does it look for an elder whom somebody holds. Rows with a partition
-- key only.
with
looked_at as materialized (
    select i.id, i.partition_key
      from outlast.instances i
     where i.status = 'runnable' and not i.blocked and i.queue = $2
       and i.eligible_at <= outlast.now()
       and i.fsm || '/' || i.fsm_version = any ($3)
     order by i.priority, i.eligible_at, i.id
     limit $5
       for no key update skip locked
),
taken as materialized (
    select l.id
      from looked_at l
     where not exists (select from outlast.instances r
                        where r.status = 'executing' and r.partition_key = l.partition_key)
     limit least($4, 1)
),
claimed as (
    update outlast.instances i
       set status = 'executing', revision = i.revision + 1, locked_by = $1, updated_at = outlast.now()
      from taken t
     where i.id = t.id
    returning i.*
),
set_aside as (
    update outlast.instances i
       set blocked = true
      from looked_at l
     where i.id = l.id and l.id not in (select t.id from taken t)
    returning i.id
)
select null::bigint as looked_at, null::bigint as set_aside, null::boolean as paused, null::timestamptz as now,
       c.id, c.revision, c.fsm, c.fsm_version, c.step, c.state::text as state, c.priority, c.attempt, c.crashes,
       c.partition_key, c.correlation_key, c.parent_id, c.parent_round, c.round, c.awaits,
       c.children_dropped::text as children_dropped, c.eligible_at, c.entered_revision, c.trace,
       null::boolean as has_inbox
  from claimed c
union all
select (select count(*) from looked_at), (select count(*) from set_aside), false, outlast.now(),
       null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
       null, null, null
