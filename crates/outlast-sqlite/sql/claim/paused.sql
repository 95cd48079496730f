-- Whether a queue gives out no work.
-- Parameters: 1 queue.
-- Index: primary key of queues.
-- Bound: one row.
select 1
from queues
where name = ?1
