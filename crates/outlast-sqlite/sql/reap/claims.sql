-- Returns the claims of a dead worker, by id, with its crash counts.
-- Parameters: 1 worker, 2 limit.
-- Index: instances_locked.
-- Bound: the limit.
select id, crashes, crashes_counted, step
from instances
where status = 'executing' and locked_by = ?1
order by id
limit ?2
