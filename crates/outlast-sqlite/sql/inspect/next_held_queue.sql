-- The next queue in which something is held behind a partition key: one step of a skip over the index.
-- Parameters: 1 the queue before.
-- Index: instances_held.
-- Bound: one row.
select queue
from instances
where blocked = 1 and held is not 1 and queue > ?1
order by queue
limit 1
