-- Counts waits whose deadline passed before a moment, and the longest delay among them.
-- Parameters: 1 now, 2 the moment, 3 limit.
-- Index: instances_deadline.
-- Bound: the limit.
select count(*) as instances,
    ?1 - min(await_deadline) as longest
from (
    select await_deadline
    from instances
    where await_deadline is not null and await_deadline < ?2
    order by await_deadline
    limit ?3)
