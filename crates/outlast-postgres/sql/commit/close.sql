-- Leaves cascades for own rows: those that have ended with children under a policy, and those whose join was decided
-- by what it began with, when the fan-out said what becomes of the rest.
--
-- $1 ids  $2 the revisions they were at before this transaction wrote them
-- guard   this transaction wrote them   locks none   index instances_pkey, instances_policed   bound the batch
--
-- After the parents have ended: nobody but a parent starts children of it, so there will be no more of them. A child that
-- ends at this moment is told for nothing. An operator's retry of one holds the parent's lock until it is over, so
-- that it is seen, or comes after the end and is what the operator wants.
with
written as materialized (
    select o.*
      from (select i.id, i.round, i.status, i.finished_at is not null as has_ended, i.children_pending, i.joined,
                   i.join_rest
              from unnest($1::bigint[], $2::bigint[]) as c (id, revision)
              join outlast.instances i on i.id = any (array[c.id])
                                         and i.revision = c.revision + 1
                                         and i.xmin = pg_current_xact_id()::xid
            offset 0) as o
     where o.round > 0
)
insert into outlast.cascades
       (parent_id, from_round, upto_round, at_round, action, deep, operator, reason, created_at)
select w.id,
       case when w.has_ended then 1 else w.round end, w.round, w.round,
       case when w.has_ended then 'policy' when w.join_rest = 'request_cancel' then 'cancel' else w.join_rest end,
       false, 'parent',
       case when w.has_ended then format('parent %s ended as %s', w.id, w.status)
            else format('the join of parent %s was decided: %s', w.id, w.joined) end,
       outlast.now()
  from written w
 where case when w.has_ended
            then exists (select from outlast.instances n
                          where n.parent_id + 0 = w.id and n.on_parent_close is not null and n.finished_at is null
                         offset 0)
            else w.status = 'runnable' and w.joined is not null and w.join_rest is not null
                 and w.children_pending > 0 end
 order by w.id
returning id
