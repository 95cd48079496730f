-- Parks a parent on the children it started, or makes it runnable when its join is already
-- decided.
-- Parameters: 1 id, 2 revision, 3 step, 4 state, 5 status, 6 children started, 7 children dropped
--   (JSON), 8 now, 9 deadline or null, 10 successes needed or null, 11 whether it fails fast,
--   12 window or null, 13 policy for the remaining children or null, 14 reason of the decision or
--   null.
-- Guard: the fence.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set status = ?5,
    revision = revision + 1,
    entered_revision = revision + 1,
    step = ?3,
    state = ?4,
    eligible_at = ?8,
    attempt = 0,
    crashes = 0,
    locked_by = null,
    awaits = null,
    await_deadline = ?9,
    round = round + 1,
    children_pending = ?6,
    children_dropped = ?7,
    children_started = ?6,
    children_failed = 0,
    first_failure = null,
    join_needs = ?10,
    join_fails_fast = ?11,
    join_window = ?12,
    join_rest = ?13,
    joined = ?14,
    joining = null,
    joining_left = null,
    last_error = null,
    correlation_guard = iif(
        instr(correlation_scope, '"' || ?5 || '"') > 0, correlation_guard, null),
    updated_at = ?8
where id = ?1 and revision = ?2 and status = 'executing'
