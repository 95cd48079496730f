-- Empties the inbox of an instance that ended: signals with a dedup key become tombstones.
-- Parameters: 1 instance, 2 now.
-- Index: signals_target.
-- Bound: INBOX_MAX.
update signals
set payload = null,
    consumed_at = ?2
where consumed_at is null and target_id = ?1
