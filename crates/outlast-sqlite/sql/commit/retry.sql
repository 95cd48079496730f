-- Requeues the same step for later. Keeps awaits, so that the repeated step receives the same
-- signals.
-- Parameters: 1 id, 2 revision, 3 state, 4 eligible_at, 5 error or null, 6 now.
-- Guard: the fence.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set status = 'runnable',
    revision = revision + 1,
    state = ?3,
    eligible_at = ?4,
    attempt = attempt + 1,
    crashes = 0,
    locked_by = null,
    last_error = coalesce(?5, last_error),
    updated_at = ?6
where id = ?1 and revision = ?2 and status = 'executing'
