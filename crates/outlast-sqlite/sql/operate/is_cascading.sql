-- Whether the children of an instance are still to be told what became of it.
-- Parameters: 1 parent.
-- Index: cascades_parent.
-- Bound: one row.
select 1
from cascades
where parent_id = ?1
limit 1
