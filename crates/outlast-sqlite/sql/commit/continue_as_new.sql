-- Starts the next run of a workflow and releases the claim. Any worker may claim it. The timeout of
-- a run is counted anew, that of the instance goes on.
-- Parameters: 1 id, 2 revision, 3 state, 4 now.
-- Guard: the fence.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set status = 'runnable',
    revision = revision + 1,
    entered_revision = revision + 1,
    run = run + 1,
    events = 0,
    state = ?3,
    eligible_at = ?4,
    attempt = 0,
    crashes = 0,
    locked_by = null,
    awaits = null,
    last_error = null,
    run_timeout_at = ?4 + run_timeout_us,
    updated_at = ?4
where id = ?1 and revision = ?2 and status = 'executing'
returning run
