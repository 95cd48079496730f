-- Returns the children of one round, in the order the parent started them.
-- Parameters: 1 parent, 2 round.
-- Index: instances_parent.
-- Bound: CHILDREN_MAX, enforced by commit.
select id, parent_round, parent_position, on_parent_close, held, machine, machine_version, state, result,
    iif(status = 'awaiting_signal' and coalesce(awaits, '[]') = '[]', 'sleeping', status) as status,
    last_error, finished_at, run
from instances
where parent_id = ?1 and parent_round = ?2
order by id
