-- Counts the eligible rows of one priority, and returns since when the first is eligible.
-- Parameters: 1 queue, 2 priority, 3 now, 4 limit.
-- Index: instances_pick.
-- Bound: the limit.
select count(*), min(eligible_at)
from (
    select eligible_at
    from instances
    where status = 'runnable' and blocked = 0
      and queue = ?1 and priority = ?2 and eligible_at <= ?3
    order by eligible_at
    limit ?4)
