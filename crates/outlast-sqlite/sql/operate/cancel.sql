-- Requests the cancel of an instance. The revision stays, so that a running step keeps its claim.
-- Parameters: 1 id, 2 reason, 3 now.
-- Guard: the instance has not finished, and no cancel was requested before.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set cancel_requested_at = ?3,
    cancel_reason = ?2,
    cancel_answered = 0,
    updated_at = ?3
where id = ?1 and finished_at is null and cancel_requested_at is null
