-- Wakes an instance that waits for signals, a workflow also when it waits for children beside; keeps what it awaited.
-- Parameters: 1 id, 2 now.
-- Guard: it waits for signals, or is a workflow that waits for children.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set status = 'runnable',
    eligible_at = ?2,
    await_deadline = null,
    updated_at = ?2
where id = ?1
  and (status = 'awaiting_signal' or status = 'awaiting_children' and joining is not null)
