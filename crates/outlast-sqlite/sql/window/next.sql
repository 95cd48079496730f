-- Returns the next children to get a place in a window, in the order the parent started them.
-- Parameters: 1 parent, 2 round, 3 places.
-- Index: instances_window.
-- Bound: the places.
select id, queue, eligible_at
from instances
where held is not null and finished_at is null
  and parent_id = ?1 and parent_round = ?2 and held = 1
order by id
limit ?3
