-- Checks whether an instance has a cascade left to run.
-- Parameters: 1 parent.
-- Index: cascades_parent.
-- Bound: one row.
select 1
from cascades
where parent_id = ?1
limit 1
