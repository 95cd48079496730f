-- Wakes an instance that waits for signals, or a workflow that also waits for children. Keeps
-- awaits, so that the step receives the signals it waited for.
-- Parameters: 1 id, 2 now.
-- Guard: the instance waits for signals, or is a workflow that waits for children.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set status = 'runnable',
    eligible_at = ?2,
    await_deadline = null,
    updated_at = ?2
where id = ?1
  and (status = 'awaiting_signal' or status = 'awaiting_children' and joining is not null)
