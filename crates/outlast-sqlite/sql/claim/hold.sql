-- Holds a row behind its partition key. The row leaves the pick index until line/let_through
-- brings it back.
-- Parameters: 1 id.
-- Guard: the instance is runnable and has a partition key.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set blocked = 1
where id = ?1 and status = 'runnable' and partition_key is not null
