-- Removes the recorded operations of an instance.
-- Parameters: 1 instance.
-- Index: operations_instance.
-- Bound: the operations on one instance.
delete from operations
where instance_id = ?1
