-- Counts the live children of a round, and the children that failed or were cancelled.
-- Parameters: 1 parent, 2 round.
-- Index: instances_parent.
-- Bound: CHILDREN_MAX.
select count(*) filter (where finished_at is null) as live,
    count(*) filter (where status = 'failed' or status = 'cancelled') as failed
from instances
where parent_id = ?1 and parent_round = ?2
