-- Counts a child again that was retried.
-- Parameters: 1 parent, 2 round of the child, 3 now.
-- Guard: the parent waits for children of that round (I6).
-- Index: primary key of instances.
-- Bound: one row.
update instances
set children_pending = children_pending + 1,
    updated_at = ?3
where id = ?1 and round = ?2 and status = 'awaiting_children'
