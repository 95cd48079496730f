-- Returns stored signals of an instance, oldest first, tombstones included.
-- Parameters: 1 instance, 2 after this id, 3 limit.
-- Index: signals_dedup.
-- Bound: the limit.
select id, target_id, name, payload, dedup_key, wants_reply, inserted_at, consumed_at
from signals
where target_id = ?1 and id > ?2
order by id
limit ?3
