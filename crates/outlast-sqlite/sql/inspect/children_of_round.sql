-- Children of an instance, of one round.
-- Parameters: 1 parent, 2 round, 3 after this id, 4 limit.
-- Index: instances_parent.
-- Bound: the limit.
select id, parent_round, fsm, fsm_version, status, state, result, last_error
from instances
where parent_id = ?1 and parent_round = ?2 and id > ?3
order by id
limit ?4
