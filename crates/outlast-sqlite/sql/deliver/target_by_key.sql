-- The target of a signal by its correlation key, and whether it waits for that name.
-- Parameters: 1 machine, 2 key, 3 name of the signal.
-- Guard: it holds the key and has not ended.
-- Index: instances_correlation.
-- Bound: one row.
select id, queue,
    (status = 'awaiting_signal' or status = 'awaiting_children' and joining is not null)
        and exists (select 1 from json_each(awaits) where value = ?3) as waits
from instances
where machine = ?1 and correlation_guard = ?2 and finished_at is null
