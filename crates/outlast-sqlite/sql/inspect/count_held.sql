-- How many rows of a queue are held behind their partition keys: eligible ones, those that are not (the
-- clock was set back), and since when the first is eligible. Who waits for a place in a window is in no queue yet.
-- Parameters: 1 queue, 2 now, 3 limit.
-- Index: instances_held.
-- Bound: the limit.
select coalesce(sum(eligible_at <= ?2), 0) as eligible,
    coalesce(sum(eligible_at > ?2), 0) as delayed,
    min(iif(eligible_at <= ?2, eligible_at, null)) as oldest
from (
    select eligible_at
    from instances
    where blocked = 1 and held is not 1 and queue = ?1
    order by eligible_at
    limit ?3)
