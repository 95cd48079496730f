-- Lists the claims of a worker by id, with their unanswered cancels.
--
-- $1 worker
-- locks   none: the worker's row is held since lease/lock.sql, so no claim is in progress
-- index   instances_locked
-- bound   the claims of one worker
select i.id, i.revision,
       case when not i.cancel_answered then i.cancel_requested_at end as cancel_requested_at,
       case when not i.cancel_answered then i.cancel_reason end as cancel_reason
  from outlast.instances i
 where i.status = 'executing' and i.locked_by = $1
 -- Not `i.id`: the planner must not read the primary key to get this order.
 order by i.id + 0
