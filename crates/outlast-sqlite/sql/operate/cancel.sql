-- Asks an instance to end. The revision stays: a claim is not lost by it.
-- Parameters: 1 id, 2 reason, 3 now.
-- Guard: it has not ended and was not asked before.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set cancel_requested_at = ?3,
    cancel_reason = ?2,
    cancel_answered = 0,
    updated_at = ?3
where id = ?1 and finished_at is null and cancel_requested_at is null
