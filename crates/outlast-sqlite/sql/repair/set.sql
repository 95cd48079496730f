-- Counts the children of a join set: the live ones, and those that ended, or ended badly, after the
-- workflow parked. The ranges may contain children that it does not wait for: their earlier ends do
-- not count.
-- Parameters: 1 parent, 2 child ranges (JSON), 3 join set, 4 when the parent parked.
-- Index: instances_parent.
-- Bound: the children of the join set's rounds.
select count(*) filter (where child.finished_at is null) as live,
    count(*) filter (where child.finished_at > ?4) as ended,
    count(*) filter (where child.finished_at > ?4 and child.status <> 'done') as bad
from json_each(?2) as span
join instances as child
    on child.parent_id = ?1
    and child.parent_round = span.value ->> 1
    and child.parent_position between span.value ->> 2 and span.value ->> 3
where span.value ->> 0 = ?3
