-- Checks whether a join set of a workflow has a live child.
-- Parameters: 1 parent, 2 child ranges (JSON), 3 join set.
-- Index: instances_parent.
-- Bound: the children of the join set's rounds.
select 1
from json_each(?2) as span
join instances as child
    on child.parent_id = ?1
    and child.parent_round = span.value ->> 1
    and child.parent_position between span.value ->> 2 and span.value ->> 3
where span.value ->> 0 = ?3 and child.finished_at is null
limit 1
