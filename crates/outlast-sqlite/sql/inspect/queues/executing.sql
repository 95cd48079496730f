-- Counts the executing instances by queue.
-- Index: instances_locked.
-- Bound: the claims of all workers.
select queue, count(*)
from instances indexed by instances_locked
where status = 'executing'
group by queue
