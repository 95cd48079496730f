-- Returns the target of a signal by correlation key, whether it waits for that name, whether it
-- needs all that it waits for, and whether its step runs.
-- Parameters: 1 machine, 2 key, 3 name of the signal.
-- Guard: the instance holds the key and has not finished.
-- Index: instances_correlation.
-- Bound: one row.
select id, queue,
    (status = 'awaiting_signal' or status = 'awaiting_children' and joining is not null)
        and exists (select 1 from json_each(awaits) where value = ?3) as waits,
    needs_all_revision is revision as needs_all,
    status = 'executing' as runs
from instances
where machine = ?1 and correlation_guard = ?2 and finished_at is null
