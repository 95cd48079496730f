-- Returns when the next delayed row of one priority becomes eligible.
-- Parameters: 1 queue, 2 priority, 3 now.
-- Index: instances_pick.
-- Bound: one row.
select eligible_at
from instances
where status = 'runnable' and blocked = 0
  and queue = ?1 and priority = ?2 and eligible_at > ?3
order by eligible_at
limit 1
