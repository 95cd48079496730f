-- Inserts a signal into an inbox.
-- Parameters: 1 instance, 2 name, 3 payload, 4 dedup key, 5 now, 6 whether it is an update.
-- Bound: one row.
insert into signals (target_id, name, payload, dedup_key, inserted_at, wants_reply)
values (?1, ?2, ?3, ?4, ?5, ?6)
