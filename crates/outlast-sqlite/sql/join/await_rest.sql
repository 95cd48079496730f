-- Moves a workflow whose children have finished to waiting for the rest of its group.
-- Parameters: 1 parent, 2 now.
-- Guard: the instance waits for children.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set status = 'awaiting_signal',
    joined = 'all',
    correlation_guard = iif(
        instr(correlation_scope, '"awaiting_signal"') > 0, correlation_guard, null),
    updated_at = ?2
where id = ?1 and status = 'awaiting_children'
