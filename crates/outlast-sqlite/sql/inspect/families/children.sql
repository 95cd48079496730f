-- Returns children of an instance, of every round.
-- Parameters: 1 parent, 2 after this id, 3 limit.
-- Index: instances_parent.
-- Bound: the limit.
select id, parent_round, parent_position, on_parent_close, held, machine, machine_version, state, result,
    iif(status = 'awaiting_signal' and coalesce(awaits, '[]') = '[]', 'sleeping', status) as status,
    last_error, finished_at, run
from instances
where parent_id = ?1 and id > ?2
order by id
limit ?3
