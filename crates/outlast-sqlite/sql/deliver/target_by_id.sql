-- Returns the target of a signal, whether it waits for that name, whether it needs all that it
-- waits for, and whether its step runs. A finished instance is no target (I7).
-- Parameters: 1 id, 2 name of the signal.
-- Guard: the instance has not finished.
-- Index: primary key of instances.
-- Bound: one row.
select id, queue,
    (status = 'awaiting_signal' or status = 'awaiting_children' and joining is not null)
        and exists (select 1 from json_each(awaits) where value = ?2) as waits,
    needs_all_revision is revision as needs_all,
    status = 'executing' as runs
from instances
where id = ?1 and finished_at is null
