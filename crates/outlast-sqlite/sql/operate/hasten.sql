-- Wakes an instance that has a pending cancel. It no longer waits, and keeps awaits.
-- Parameters: 1 id, 2 now.
-- Guard: the instance has not finished and is not executing.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set status = 'runnable',
    eligible_at = iif(status = 'runnable', min(eligible_at, ?2), ?2),
    await_deadline = null
where id = ?1 and finished_at is null and status <> 'executing'
