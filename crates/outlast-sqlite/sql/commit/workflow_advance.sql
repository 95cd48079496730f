-- Advances a workflow, or parks it on signals or on a moment. The workflow may have begun a round
-- of children that it does not wait for now.
-- Parameters: 1 id, 2 revision, 3 status, 4 names (JSON) or null, 5 deadline or null, 6 children
--   dropped (JSON), null when no round begins, 7 events added, 8 now, 9 whether it needs all.
-- Guard: the fence.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set status = ?3,
    revision = revision + 1,
    eligible_at = iif(?3 = 'executing', eligible_at, ?8),
    attempt = 0,
    crashes = 0,
    locked_by = iif(?3 = 'executing', locked_by, null),
    awaits = ?4,
    await_deadline = ?5,
    needs_all_revision = iif(?9, revision + 1, null),
    round = round + (?6 is not null),
    children_dropped = coalesce(?6, children_dropped),
    joining = iif(?6 is null and joining is null, null, '[]'),
    joining_left = iif(?6 is null and joining is null, null, '[]'),
    events = events + ?7,
    last_error = null,
    correlation_guard = iif(
        instr(correlation_scope, '"' || ?3 || '"') > 0, correlation_guard, null),
    updated_at = ?8
where id = ?1 and revision = ?2 and status = 'executing'
