-- The next queue that holds something that lives: one step of a skip over the index.
-- Parameters: 1 the queue before.
-- Index: instances_live.
-- Bound: one row.
select queue
from instances
where finished_at is null and queue > ?1
order by queue
limit 1
