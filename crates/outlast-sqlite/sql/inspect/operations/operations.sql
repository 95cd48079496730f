-- Returns the latest operations.
-- Parameters: 1 limit.
-- Bound: the limit.
select id, verb, instance_id, queue, operator, reason, cause_id, status_before, at
from operations
order by id desc
limit ?1
