-- Consumes a received signal that has a dedup key. The row stays as a tombstone, so that a
-- repeated send is recognised (docs/protocol.md, defect 9).
-- Parameters: 1 signal, 2 instance, 3 now.
-- Guard: the signal belongs to the instance and is not consumed (I7).
-- Index: primary key of signals.
-- Bound: one row.
update signals
set payload = null,
    consumed_at = ?3
where id = ?1 and target_id = ?2 and consumed_at is null
