-- Checks whether a finished instance has live children with a policy for its end.
-- Parameters: 1 parent.
-- Index: instances_policed.
-- Bound: one row.
select 1
from instances
where on_parent_close is not null and finished_at is null and parent_id = ?1
limit 1
