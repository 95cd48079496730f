-- Returns the whole instance that holds a correlation key, or the latest that held it.
-- Parameters: 1 machine, 2 key.
-- Index: instances_correlation, instances_keys, primary key of instances.
-- Bound: one row.
select id, machine, machine_version, step, state, status, revision, result, last_error, queue, priority,
    eligible_at, attempt, crashes, partition_key, locked_by, awaits, await_deadline, parent_id,
    parent_round, round, children_pending, children_dropped, correlation_key, correlation_scope,
    correlation_guard, entered_revision, trace, inserted_at, updated_at, finished_at, parent_position,
    on_parent_close, held, children_started, children_failed, first_failure, join_needs, join_fails_fast,
    join_window, join_rest, joined, cancel_requested_at, cancel_reason, cancel_answered, run, events, joining,
    joining_left, needs_all_revision, timeout_at, run_timeout_at
from instances
where id = coalesce(
    (select h.id from instances h where h.machine = ?1 and h.correlation_guard = ?2),
    (select o.id from instances o where o.machine = ?1 and o.correlation_key = ?2 order by o.id desc limit 1)
)
