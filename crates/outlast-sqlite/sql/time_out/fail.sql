-- Fails an instance that has taken too long, in any status. The new revision rejects the outcome
-- of a running step.
-- Parameters: 1 id, 2 error, 3 now.
-- Guard: the instance has not finished (I4).
-- Index: primary key of instances.
-- Bound: one row.
update instances
set status = 'failed',
    revision = revision + 1,
    last_error = ?2,
    crashes = 0,
    blocked = 0,
    held = iif(held is null, null, 0),
    locked_by = null,
    awaits = null,
    await_deadline = null,
    correlation_guard = iif(instr(correlation_scope, '"failed"') > 0, correlation_guard, null),
    updated_at = ?3,
    finished_at = ?3
where id = ?1 and finished_at is null
