-- Returns the live parent of an instance. That parent may still read the child's result.
-- Parameters: 1 id.
-- Index: primary key of instances.
-- Bound: one row.
select parent.id
from instances as child
join instances as parent on parent.id = child.parent_id
where child.id = ?1 and parent.finished_at is null
