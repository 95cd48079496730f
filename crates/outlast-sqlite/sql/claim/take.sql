-- Claims a row for a worker. Releases the correlation key when its scope lacks executing (I9).
-- Signals of an earlier claim are in the inbox of this one.
-- Parameters: 1 id, 2 worker, 3 now.
-- Guard: the instance is runnable.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set status = 'executing',
    revision = revision + 1,
    locked_by = ?2,
    latest_signal = null,
    updated_at = ?3,
    correlation_guard = iif(instr(correlation_scope, '"executing"') > 0, correlation_guard, null)
where id = ?1 and status = 'runnable'
