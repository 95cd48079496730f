-- Empties the inbox of an instance that ended: signals without a dedup key go.
-- Parameters: 1 instance.
-- Index: signals_dedup.
-- Bound: INBOX_MAX.
delete from signals
where consumed_at is null and target_id = ?1 and dedup_key is null
