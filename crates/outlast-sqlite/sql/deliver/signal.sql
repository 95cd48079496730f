-- Inserts a signal into an inbox.
-- Parameters: 1 instance, 2 name, 3 payload, 4 dedup key, 5 now.
-- Bound: one row.
insert into signals (target_id, name, payload, dedup_key, inserted_at)
values (?1, ?2, ?3, ?4, ?5)
