-- What a workflow waits for.
-- Parameters: 1 parent.
-- Index: primary key of instances.
-- Bound: one row.
select joining, joining_left
from instances
where id = ?1 and status = 'awaiting_children' and joining is not null
