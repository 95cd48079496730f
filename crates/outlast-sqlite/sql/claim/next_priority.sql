-- The next priority of a queue that has anything to give, now or later: one step of a skip over the index.
-- Parameters: 1 queue, 2 the priority before.
-- Index: instances_pick.
-- Bound: one row.
select priority
from instances
where status = 'runnable' and blocked = 0
  and queue = ?1 and priority > ?2
order by priority
limit 1
