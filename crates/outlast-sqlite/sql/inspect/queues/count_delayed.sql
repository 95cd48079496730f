-- Counts the rows of one priority that are not eligible yet.
-- Parameters: 1 queue, 2 priority, 3 now, 4 limit.
-- Index: instances_pick.
-- Bound: the limit.
select count(*)
from (
    select 1
    from instances
    where status = 'runnable' and blocked = 0
      and queue = ?1 and priority = ?2 and eligible_at > ?3
    limit ?4)
