-- Parks on the children that were started; goes straight on when there are none.
-- Parameters: 1 id, 2 revision, 3 step, 4 state, 5 children started, 6 children dropped (JSON), 7 now.
-- Guard: the fence.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set status = iif(?5 = 0, 'runnable', 'awaiting_children'),
    revision = revision + 1,
    entered_revision = revision + 1,
    step = ?3,
    state = ?4,
    eligible_at = ?7,
    attempt = 0,
    crashes = 0,
    locked_by = null,
    awaits = null,
    round = round + 1,
    children_pending = ?5,
    children_dropped = ?6,
    last_error = null,
    correlation_guard = iif(
        ?5 = 0 or instr(correlation_scope, '"awaiting_children"') > 0, correlation_guard, null),
    updated_at = ?7
where id = ?1 and revision = ?2 and status = 'executing'
returning status, queue, eligible_at, partition_key
