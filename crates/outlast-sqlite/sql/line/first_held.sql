-- Returns the first held row of a key's next group. One step of a skip scan over the index. A
-- group is the set of rows that one worker would take in order: queue, machine, version, priority.
-- Parameters: 1 partition key, 2 queue, 3 machine, 4 version and 5 priority of the previous group.
-- Index: instances_line.
-- Bound: one row.
select id, queue, machine, machine_version, priority, eligible_at
from instances
where status = 'runnable' and partition_key is not null
  and held is not 1
  and partition_key = ?1 and blocked = 1
  and (queue, machine, machine_version, priority) > (?2, ?3, ?4, ?5)
order by queue, machine, machine_version, priority, eligible_at, id
limit 1
