-- What a worker holds, by id, and the cancels that wait to be answered.
--
-- $1 worker
-- locks none: the worker's row is held since lease/lock.sql, and with it no claim is under way
-- index instances_locked   bound what one worker holds
select i.id, i.revision,
       case when not i.cancel_answered then i.cancel_requested_at end as cancel_requested_at,
       case when not i.cancel_answered then i.cancel_reason end as cancel_reason
  from outlast.instances i
 where i.status = 'executing' and i.locked_by = $1
 -- Not `i.id`: the primary key must not look like a way to find them in order.
 order by i.id + 0
