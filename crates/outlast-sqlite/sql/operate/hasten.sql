-- Wakes an instance that is asked to end: it waits for nothing any more, and keeps what it awaited.
-- Parameters: 1 id, 2 now.
-- Guard: it has not ended and nobody runs it.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set status = 'runnable',
    eligible_at = iif(status = 'runnable', min(eligible_at, ?2), ?2),
    await_deadline = null
where id = ?1 and finished_at is null and status <> 'executing'
