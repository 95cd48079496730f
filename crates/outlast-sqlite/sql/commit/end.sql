-- Finishes an instance. Leaves step and state unchanged.
-- Parameters: 1 id, 2 revision, 3 status, 4 result, error value or null, 5 error or null, 6 now, 7 events
--   added.
-- Guard: the fence.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set status = ?3,
    revision = revision + 1,
    result = ?4,
    last_error = ?5,
    crashes = 0,
    locked_by = null,
    awaits = null,
    events = events + ?7,
    correlation_guard = iif(
        instr(correlation_scope, '"' || ?3 || '"') > 0, correlation_guard, null),
    updated_at = ?6,
    finished_at = ?6
where id = ?1 and revision = ?2 and status = 'executing'
