-- Parks a workflow on its join sets, and perhaps on signals or a moment. Makes it runnable when
-- one of them is already complete, or all of them when the workflow needs all. Counts finished
-- children like a fan-out that fails fast.
-- Parameters: 1 id, 2 revision, 3 status, 4 names (JSON) or null, 5 deadline or null, 6 children
--   dropped (JSON), null when no round begins, 7 events added, 8 now, 9 child ranges (JSON),
--   10 size of the smallest join set, 11 children pending in the join set nearest to completion,
--   12 children already failed or cancelled, 13 window or null, 14 reason of the decision or null,
--   15 children pending in each join set (JSON), 16 whether it needs all.
-- Guard: the fence.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set status = ?3,
    revision = revision + 1,
    eligible_at = ?8,
    attempt = 0,
    crashes = 0,
    locked_by = null,
    awaits = ?4,
    await_deadline = ?5,
    needs_all_revision = iif(?16, revision + 1, null),
    round = round + (?6 is not null),
    children_dropped = coalesce(?6, children_dropped),
    joining = ?9,
    joining_left = ?15,
    children_started = ?10,
    children_pending = ?11,
    children_failed = ?12,
    first_failure = null,
    join_needs = null,
    join_fails_fast = 1,
    join_window = ?13,
    join_rest = null,
    joined = ?14,
    events = events + ?7,
    last_error = null,
    correlation_guard = iif(
        instr(correlation_scope, '"' || ?3 || '"') > 0, correlation_guard, null),
    updated_at = ?8
where id = ?1 and revision = ?2 and status = 'executing'
