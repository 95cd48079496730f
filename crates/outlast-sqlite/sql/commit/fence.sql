-- Whether a claim still stands, and which fan-out would be its next.
-- Parameters: 1 id, 2 revision.
-- Guard: the fence.
-- Index: primary key of instances.
-- Bound: one row.
select round + 1 as next_round
from instances
where id = ?1 and revision = ?2 and status = 'executing'
