-- Returns the next queue that has claimable or delayed rows. One step of a skip scan over the
-- index.
-- Parameters: 1 previous queue.
-- Index: instances_pick.
-- Bound: one row.
select queue
from instances
where status = 'runnable' and blocked = 0 and queue > ?1
order by queue
limit 1
