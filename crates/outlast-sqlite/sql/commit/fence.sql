-- Returns the row of a claim that still holds, and no row when the claim is lost.
-- Parameters: 1 id, 2 revision.
-- Guard: the fence.
-- Index: primary key of instances.
-- Bound: one row.
select queue, eligible_at, partition_key, parent_id, parent_round, parent_position, held, round, cancel_requested_at,
    cancel_reason, cancel_answered, latest_signal
from instances
where id = ?1 and revision = ?2 and status = 'executing'
