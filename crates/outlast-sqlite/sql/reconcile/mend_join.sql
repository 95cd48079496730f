-- Sets a parent's count right, and releases it when nothing is left to wait for.
-- Parameters: 1 id, 2 children that live, 3 now.
-- Guard: it waits for children.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set children_pending = ?2,
    status = iif(?2 = 0, 'runnable', status),
    eligible_at = iif(?2 = 0, ?3, eligible_at),
    updated_at = ?3
where id = ?1 and status = 'awaiting_children'
