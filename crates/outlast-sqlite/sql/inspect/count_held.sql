-- How many eligible rows of a queue are held behind their partition keys, and since when the first is
-- eligible.
-- Parameters: 1 queue, 2 now, 3 limit.
-- Index: instances_held.
-- Bound: the limit.
select count(*), min(eligible_at)
from (
    select eligible_at
    from instances
    where blocked = 1 and queue = ?1 and eligible_at <= ?2
    order by eligible_at
    limit ?3)
