-- Returns the first row of a group that is not held.
-- Parameters: 1 partition key, 2 queue, 3 machine, 4 version, 5 priority.
-- Index: instances_line.
-- Bound: one row.
select eligible_at, id
from instances
where status = 'runnable' and partition_key is not null
  and held is not 1
  and partition_key = ?1 and blocked = 0
  and queue = ?2 and machine = ?3 and machine_version = ?4 and priority = ?5
order by eligible_at, id
limit 1
