-- Counts one ended child; the last one releases the parent.
-- Parameters: 1 parent, 2 round of the child, 3 now.
-- Guard: the parent waits for children of that round (I6).
-- Index: primary key of instances.
-- Bound: one row.
update instances
set children_pending = max(children_pending - 1, 0),
    status = iif(children_pending <= 1, 'runnable', status),
    eligible_at = iif(children_pending <= 1, ?3, eligible_at),
    updated_at = ?3
where id = ?1 and round = ?2 and status = 'awaiting_children'
returning status, queue
