-- The target of a signal, whether it waits for that name, and whether it needs all that it waits
-- for. An ended one is no target (I7).
-- Parameters: 1 id, 2 name of the signal.
-- Guard: it has not ended.
-- Index: primary key of instances.
-- Bound: one row.
select id, queue,
    (status = 'awaiting_signal' or status = 'awaiting_children' and joining is not null)
        and exists (select 1 from json_each(awaits) where value = ?2) as waits,
    needs_all_revision is revision as needs_all
from instances
where id = ?1 and finished_at is null
