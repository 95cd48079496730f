-- Returns the next priority of a queue that has claimable or delayed rows. One step of a skip scan
-- over the index.
-- Parameters: 1 queue, 2 previous priority.
-- Index: instances_pick.
-- Bound: one row.
select priority
from instances
where status = 'runnable' and blocked = 0
  and queue = ?1 and priority > ?2
order by priority
limit 1
