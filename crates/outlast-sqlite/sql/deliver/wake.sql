-- Wakes an instance that waits for signals; keeps what it awaited.
-- Parameters: 1 id, 2 now.
-- Guard: it waits for signals.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set status = 'runnable',
    eligible_at = ?2,
    await_deadline = null,
    updated_at = ?2
where id = ?1 and status = 'awaiting_signal'
