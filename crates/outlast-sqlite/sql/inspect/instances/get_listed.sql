-- Returns one instance of a page, with or without its values.
-- Parameters: 1 id, 2 whether to read state, result and dropped children.
-- Index: primary key of instances.
-- Bound: one row.
select id, machine, machine_version, step, iif(?2, state, 'null') as state, status, revision,
    iif(?2, result, null) as result, last_error, queue, priority,
    eligible_at, attempt, crashes, partition_key, locked_by, awaits, await_deadline, parent_id,
    parent_round, round, children_pending, iif(?2, children_dropped, null) as children_dropped,
    correlation_key, correlation_scope,
    correlation_guard, entered_revision, trace, inserted_at, updated_at, finished_at, parent_position,
    on_parent_close, held, children_started, children_failed, first_failure, join_needs, join_fails_fast,
    join_window, join_rest, joined, cancel_requested_at, cancel_reason, cancel_answered, run, events, joining,
    joining_left, needs_all_revision, timeout_at, run_timeout_at
from instances
where id = ?1
