-- Parks an instance on a set of names, or makes it runnable when a match is in its inbox.
-- Parameters: 1 id, 2 revision, 3 step, 4 state, 5 names (JSON), 6 status, 7 deadline or null,
--   8 now, 9 the last signal that the step received, or null. The signals that a wait keeps do
--   not wake it; repair/unseen_signal.sql asks for later ones.
-- Guard: the fence.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set status = ?6,
    revision = revision + 1,
    entered_revision = revision + 1,
    step = ?3,
    state = ?4,
    eligible_at = ?8,
    crashes = 0,
    locked_by = null,
    awaits = ?5,
    await_deadline = ?7,
    latest_signal = ?9,
    last_error = null,
    correlation_guard = iif(
        instr(correlation_scope, '"' || ?6 || '"') > 0, correlation_guard, null),
    updated_at = ?8
where id = ?1 and revision = ?2 and status = 'executing'
