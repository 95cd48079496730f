-- Lets a queue give out work again.
-- Parameters: 1 queue.
-- Index: primary key of queues.
-- Bound: one row.
delete from queues
where name = ?1
