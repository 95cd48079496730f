-- Resumes a queue.
-- Parameters: 1 queue.
-- Index: primary key of queues.
-- Bound: one row.
delete from queues
where name = ?1
