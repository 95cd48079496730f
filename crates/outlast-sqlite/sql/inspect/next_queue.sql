-- The next queue that has anything to give, now or later: one step of a skip over the index.
-- Parameters: 1 the queue before.
-- Index: instances_pick.
-- Bound: one row.
select queue
from instances
where status = 'runnable' and blocked = 0 and queue > ?1
order by queue
limit 1
