-- The queues that are paused.
-- Bound: the paused queues there are.
select name
from queues
order by name
