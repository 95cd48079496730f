-- Returns the next children of a cascade: latest round first, highest id first.
-- Parameters: 1 parent, 2 first round, 3 round and 4 id of the position, 5 limit.
-- Index: instances_parent.
-- Bound: the limit.
select id, parent_round
from instances
where parent_id = ?1 and parent_round >= ?2 and (parent_round, id) < (?3, ?4)
order by parent_round desc, id desc
limit ?5
