-- Checks whether a live child has a place in a window.
-- Parameters: 1 parent, 2 round.
-- Index: instances_window.
-- Bound: one row.
select 1
from instances
where held is not null and finished_at is null
  and parent_id = ?1 and parent_round = ?2 and held = 0
limit 1
