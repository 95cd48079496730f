-- Checks whether a queue is paused. A queue has a row only while it is paused.
-- Parameters: 1 queue.
-- Index: primary key of queues.
-- Bound: one row.
select 1
from queues
where name = ?1
