-- Consumes a received signal that had no dedup key: it goes.
-- Parameters: 1 signal, 2 instance.
-- Guard: it belongs to the instance and is not consumed (I7).
-- Index: primary key of signals.
-- Bound: one row.
delete from signals
where id = ?1 and target_id = ?2 and consumed_at is null and dedup_key is null
