-- Counts a retried child as pending again.
-- Parameters: 1 parent, 2 round of the child, 3 now.
-- Guard: the parent is a machine that waits for children of that round (I6). A workflow is not
--   counted: it has seen the child finish, or will.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set children_pending = children_pending + 1,
    children_failed = max(children_failed - 1, 0),
    updated_at = ?3
where id = ?1 and round = ?2 and status = 'awaiting_children' and joining is null
returning first_failure
