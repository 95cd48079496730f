-- Returns the paused queues.
-- Bound: the number of paused queues.
select name
from queues
order by name
