-- Consumes a received signal that had a dedup key: it stays as a tombstone (docs/protocol.md, defect 9).
-- Parameters: 1 signal, 2 instance, 3 now.
-- Guard: it belongs to the instance and is not consumed (I7).
-- Index: primary key of signals.
-- Bound: one row.
update signals
set payload = null,
    consumed_at = ?3
where id = ?1 and target_id = ?2 and consumed_at is null
