-- Returns the id before the newest instances: a walk over them starts after it.
-- Parameters: 1 how many instances.
-- Bound: the number of instances, in the order of the primary key.
select id
from instances
order by id desc
limit 1 offset ?1
