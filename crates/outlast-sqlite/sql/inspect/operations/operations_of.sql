-- Returns the latest operations on one instance.
-- Parameters: 1 instance, 2 limit.
-- Index: operations_instance.
-- Bound: the limit.
select id, verb, instance_id, queue, operator, reason, cause_id, status_before, at
from operations
where instance_id = ?1
order by id desc
limit ?2
