-- Returns the child of a round that failed or was cancelled first. Of several at one moment, the
-- child that was started first.
-- Parameters: 1 parent, 2 round.
-- Index: instances_parent.
-- Bound: CHILDREN_MAX.
select id
from instances
where parent_id = ?1 and parent_round = ?2 and (status = 'failed' or status = 'cancelled')
order by finished_at, id
limit 1
