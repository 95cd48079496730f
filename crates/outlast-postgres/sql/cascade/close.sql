-- Leaves cascades for finished parents and for fan-outs whose join was decided at their start.
--
-- A finished parent needs one if a child has a close policy. A decided join needs one if the
-- fan-out has a policy for the remaining children.
--
-- $1 ids  $2 their revisions before this transaction wrote them
-- guard   this transaction wrote them
-- locks   none
-- index   instances_pkey, instances_policed
-- bound   the batch
--
-- Sent after the parents have finished: only a parent starts children, so no more come. A cascade
-- may find that a child has just finished; it then does nothing. An operator's retry of a child
-- holds the parent's lock. Either this statement sees the retried child, or the retry comes after
-- the parent's end, as the operator wants it.
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
