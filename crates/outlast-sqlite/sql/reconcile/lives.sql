-- Whether a child of one of the rounds that a workflow waits for has not ended.
-- Parameters: 1 parent, 2 rounds (JSON).
-- Index: instances_parent.
-- Bound: the children of those rounds.
select 1
from json_each(?2) as awaited
join instances as child on child.parent_id = ?1 and child.parent_round = awaited.value
where child.finished_at is null
limit 1
