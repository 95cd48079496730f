-- Counts the rows of a queue that are held behind their partition keys, and returns since when the
-- first is eligible. A held row is delayed only if the clock was set back. Rows that wait for a
-- place in a window do not count: they are in no queue yet.
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
