-- A workflow whose children have ended waits on for the rest of what it needs.
-- Parameters: 1 parent, 2 now.
-- Guard: it waits for children.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set status = 'awaiting_signal',
    joined = 'all',
    correlation_guard = iif(
        instr(correlation_scope, '"awaiting_signal"') > 0, correlation_guard, null),
    updated_at = ?2
where id = ?1 and status = 'awaiting_children'
