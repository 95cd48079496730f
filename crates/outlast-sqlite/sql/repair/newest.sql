-- Returns the id before the newest instances: a walk over them starts after it.
-- Parameters: 1 how many instances.
-- Index: primary key of instances.
-- Bound: the number of instances.
select id
from instances
order by id desc
limit 1 offset ?1
