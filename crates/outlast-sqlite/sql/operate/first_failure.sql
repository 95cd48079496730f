-- The child of a round that ended badly first; of several at one moment, the first in the order they were asked for.
-- Parameters: 1 parent, 2 round.
-- Index: instances_parent.
-- Bound: CHILDREN_MAX.
select id
from instances
where parent_id = ?1 and parent_round = ?2 and (status = 'failed' or status = 'cancelled')
order by finished_at, id
limit 1
