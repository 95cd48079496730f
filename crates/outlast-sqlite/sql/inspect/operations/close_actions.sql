-- Returns the operations that a parent caused on its children, oldest first.
-- Parameters: 1 parent, 2 after this id, 3 limit.
-- Index: operations_cause.
-- Bound: the limit.
select id, verb, instance_id, queue, operator, reason, cause_id, status_before, at
from operations
where cause_id = ?1 and id > ?2
order by id
limit ?3
