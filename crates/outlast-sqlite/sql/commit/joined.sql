-- Wakes a parent whose join is decided.
-- Parameters: 1 parent, 2 why, 3 now.
-- Guard: it waits for children.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set status = 'runnable',
    joined = ?2,
    eligible_at = ?3,
    await_deadline = null,
    updated_at = ?3
where id = ?1 and status = 'awaiting_children'
