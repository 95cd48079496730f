-- How many children of a round have not ended.
-- Parameters: 1 parent, 2 round.
-- Index: instances_parent.
-- Bound: CHILDREN_MAX.
select count(*)
from instances
where parent_id = ?1 and parent_round = ?2 and finished_at is null
