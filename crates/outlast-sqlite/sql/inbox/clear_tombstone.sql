-- Turns the unconsumed signals of an instance that finished into tombstones. Runs after
-- clear_delete, so that all of them have a dedup key.
-- Parameters: 1 instance, 2 now.
-- Index: signals_target.
-- Bound: INBOX_MAX.
update signals
set payload = null,
    consumed_at = ?2
where consumed_at is null and target_id = ?1
