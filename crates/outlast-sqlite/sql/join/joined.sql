-- Wakes a parent whose join is decided.
-- Parameters: 1 parent, 2 reason, 3 now.
-- Guard: the parent waits for children.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set status = 'runnable',
    joined = ?2,
    eligible_at = ?3,
    await_deadline = null,
    updated_at = ?3
where id = ?1 and status = 'awaiting_children'
