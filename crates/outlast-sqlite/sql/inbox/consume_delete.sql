-- Consumes a received signal that has no dedup key, by deleting it.
-- Parameters: 1 signal, 2 instance.
-- Guard: the signal belongs to the instance and is not consumed (I7).
-- Index: primary key of signals.
-- Bound: one row.
delete from signals
where id = ?1 and target_id = ?2 and consumed_at is null and dedup_key is null
