-- Restarts an instance at the step where it failed or was cancelled. Clears its error value, and
-- counts its timeouts anew.
-- Parameters: 1 id, 2 now.
-- Guard: the instance failed or was cancelled (I4).
-- Index: primary key of instances.
-- Bound: one row.
update instances
set status = 'runnable',
    revision = revision + 1,
    eligible_at = ?2,
    attempt = 0,
    crashes = 0,
    result = null,
    cancel_requested_at = null,
    cancel_reason = null,
    cancel_answered = 0,
    timeout_at = ?2 + timeout_us,
    run_timeout_at = ?2 + run_timeout_us,
    updated_at = ?2,
    finished_at = null
where id = ?1 and status in ('failed', 'cancelled')
returning queue, parent_id, parent_round
