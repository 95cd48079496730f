-- Checks whether an instance with this partition key is executing, in any queue and of any machine
-- (I8).
-- Parameters: 1 partition key.
-- Index: instances_partition.
-- Bound: one row.
select 1
from instances
where status = 'executing' and partition_key is not null
  and partition_key = ?1
