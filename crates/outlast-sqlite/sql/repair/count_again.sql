-- Corrects a parent's counts.
-- Parameters: 1 id, 2 live children, 3 children that failed or were cancelled, 4 the first of the
--   failed or null, 5 now.
-- Guard: the instance waits for children.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set children_pending = ?2,
    children_failed = ?3,
    first_failure = iif(?3 = 0, null, coalesce(first_failure, ?4)),
    updated_at = ?5
where id = ?1 and status = 'awaiting_children'
