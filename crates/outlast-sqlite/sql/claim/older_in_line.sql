-- Checks whether an eligible instance of the same group comes before a row in its line. A claim
-- that continues behind rows that it has not read needs this (I8).
-- Parameters: 1 partition key, 2 queue, 3 machine, 4 version, 5 priority, 6 eligible_at and 7 id of
-- the row, 8 now.
-- Index: instances_line.
-- Bound: one row, and the delayed rows of more urgent priorities of the key.
select 1
from instances
where status = 'runnable' and partition_key is not null
  and held is not 1
  and partition_key = ?1 and blocked = 0
  and queue = ?2 and machine = ?3 and machine_version = ?4
  and (priority, eligible_at, id) < (?5, ?6, ?7)
  and eligible_at <= ?8
limit 1
