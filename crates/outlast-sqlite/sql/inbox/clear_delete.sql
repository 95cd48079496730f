-- Deletes the unconsumed signals without a dedup key of an instance that finished.
-- Parameters: 1 instance.
-- Index: signals_dedup.
-- Bound: INBOX_MAX.
delete from signals
where consumed_at is null and target_id = ?1 and dedup_key is null
