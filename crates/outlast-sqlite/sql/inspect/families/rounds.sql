-- Counts the children of an instance by round and status, newest rounds first, up to the limit.
-- Parameters: 1 parent, 2 limit.
-- Index: instances_parent.
-- Bound: the limit.
select parent_round, status, count(*) as children
from (
    select parent_round,
        iif(status = 'awaiting_signal' and coalesce(awaits, '[]') = '[]', 'sleeping', status) as status
    from instances
    where parent_id = ?1
    order by parent_round desc
    limit ?2)
group by parent_round, status
