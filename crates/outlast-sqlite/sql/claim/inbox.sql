-- Returns the unconsumed signals of an instance, oldest first.
-- Parameters: 1 instance.
-- Index: signals_target.
-- Bound: INBOX_MAX, enforced by deliver.
select id, name, payload, dedup_key, wants_reply, inserted_at
from signals
where consumed_at is null and target_id = ?1
order by id
