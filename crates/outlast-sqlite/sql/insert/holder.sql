-- Returns the instance that holds a correlation key.
-- Parameters: 1 machine, 2 key.
-- Index: instances_correlation.
-- Bound: one row.
select id
from instances
where machine = ?1 and correlation_guard = ?2
