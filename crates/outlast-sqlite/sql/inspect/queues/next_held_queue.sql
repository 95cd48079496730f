-- Returns the next queue with a row held behind a partition key. One step of a skip scan over the
-- index.
-- Parameters: 1 previous queue.
-- Index: instances_held.
-- Bound: one row.
select queue
from instances
where blocked = 1 and held is not 1 and queue > ?1
order by queue
limit 1
