-- Fails an instance whose step has crashed its workers too often (docs/protocol.md, defect 14).
-- Parameters: 1 id, 2 error, 3 now, 4 crashes that count.
-- Guard: the instance is executing.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set status = 'failed',
    revision = revision + 1,
    last_error = ?2,
    attempt = attempt + 1,
    crashes = crashes + 1,
    crashes_counted = ?4,
    locked_by = null,
    awaits = null,
    correlation_guard = iif(instr(correlation_scope, '"failed"') > 0, correlation_guard, null),
    updated_at = ?3,
    finished_at = ?3
where id = ?1 and status = 'executing'
returning id, status, partition_key, parent_id, parent_round, parent_position, held, round
