-- Sets the first failed child of a parent.
-- Parameters: 1 parent, 2 child or null.
-- Guard: the parent waits for children.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set first_failure = ?2
where id = ?1 and status = 'awaiting_children'
