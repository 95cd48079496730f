-- Checks whether a claim still holds.
-- Parameters: 1 id, 2 revision.
-- Guard: the fence.
-- Index: primary key of instances.
-- Bound: one row.
select 1
from instances
where id = ?1 and revision = ?2 and status = 'executing'
