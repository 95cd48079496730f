-- Sets a parent's counts right.
-- Parameters: 1 id, 2 children that live, 3 children that ended badly, 4 the first of those or null, 5 now.
-- Guard: it waits for children.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set children_pending = ?2,
    children_failed = ?3,
    first_failure = iif(?3 = 0, null, coalesce(first_failure, ?4)),
    updated_at = ?5
where id = ?1 and status = 'awaiting_children'
