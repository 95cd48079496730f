-- Whether a child of one part that a workflow waits for has not ended.
-- Parameters: 1 parent, 2 spans (JSON), 3 part.
-- Index: instances_parent.
-- Bound: the children of the part's rounds.
select 1
from json_each(?2) as span
join instances as child
    on child.parent_id = ?1
    and child.parent_round = span.value ->> 1
    and child.parent_position between span.value ->> 2 and span.value ->> 3
where span.value ->> 0 = ?3 and child.finished_at is null
limit 1
