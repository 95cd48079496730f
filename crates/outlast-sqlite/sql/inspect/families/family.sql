-- Returns the statuses of an instance and its descendants, up to the limit.
-- Parameters: 1 id, 2 limit.
-- Index: instances_parent.
-- Bound: the limit.
with recursive family (id, status) as (
    select id, iif(status = 'awaiting_signal' and coalesce(awaits, '[]') = '[]', 'sleeping', status)
    from instances
    where id = ?1
    union all
    select child.id,
        iif(child.status = 'awaiting_signal' and coalesce(child.awaits, '[]') = '[]', 'sleeping', child.status)
    from family
    join instances as child on child.parent_id = family.id
    limit ?2)
select status
from family
