-- Wakes waits, joins and parks of workflows whose deadline has passed.
--
-- $1 how many
-- locks   own rows by deadline, skipping locked ones
-- index   instances_deadline, instances_pkey
-- bound   $1
--
-- The deadline decides a join, and the wait of a workflow for children. A child that finishes at
-- the same time holds the parent's lock, and the parent is skipped. Or the child waits for the
-- lock and finds that the parent no longer waits (join/join.sql). A cascade is left for the
-- remaining children when the fan-out has a policy.
--
-- A workflow that needs all and still lacks children or signals waits on without the deadline. It
-- is neither woken nor answered.
with
due as materialized (
    select i.id, i.await_deadline, i.status = 'awaiting_children' as is_join,
           (i.needs_all_revision = i.revision
                and (i.status = 'awaiting_children' or cardinality(i.awaits) > 0)) is true as lacks
      from outlast.instances i
     where i.await_deadline <= outlast.now()
     order by i.await_deadline, i.id
     limit $1
       for no key update skip locked
),
woken as (
    update outlast.instances i
       set status = case when d.lacks then i.status else 'runnable' end,
           eligible_at = case when d.lacks then i.eligible_at else outlast.now() end,
           await_deadline = null,
           joined = case when d.is_join and not d.lacks then 'deadline' else i.joined end,
           correlation_guard = case when d.lacks or 'runnable' = any (i.correlation_scope)
                                    then i.correlation_guard end,
           updated_at = outlast.now()
      from due d
     where i.id = any (array[d.id])
    returning i.id, i.queue, i.round, i.join_rest, d.await_deadline, d.lacks,
              not d.lacks and d.is_join and i.children_pending > 0
                  and i.join_rest is not null as cascades
),
-- Cascades to the children that the join was decided without.
told as (
    insert into outlast.cascades
           (parent_id, from_round, upto_round, at_round, action, deep, operator, reason, created_at)
    select w.id, w.round, w.round, w.round, case w.join_rest when 'request_cancel' then 'cancel' else w.join_rest end,
           false, 'parent', format('the join of parent %s was decided: deadline', w.id), outlast.now()
      from woken w
     where w.cascades
     order by w.id
)
select w.id, w.queue, w.cascades
  from woken w
 where not w.lacks
 order by w.await_deadline, w.id
