-- Fails an instance that was just claimed and cannot be decoded. Without this the row would block
-- its queue (docs/protocol.md, defect 12).
-- Parameters: 1 id, 2 reason, 3 now.
-- Guard: the instance is executing.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set status = 'failed',
    revision = revision + 1,
    last_error = ?2,
    locked_by = null,
    awaits = null,
    updated_at = ?3,
    finished_at = ?3,
    correlation_guard = iif(instr(correlation_scope, '"failed"') > 0, correlation_guard, null)
where id = ?1 and status = 'executing'
returning id, status, partition_key, parent_id, parent_round, parent_position, held, round
