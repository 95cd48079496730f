-- What was done to children because of their parent, in the order it was done.
-- Parameters: 1 parent, 2 after this id, 3 limit.
-- Index: operations_cause.
-- Bound: the limit.
select id, verb, instance_id, queue, operator, reason, cause_id, status_before, at
from operations
where cause_id = ?1 and id > ?2
order by id
limit ?3
