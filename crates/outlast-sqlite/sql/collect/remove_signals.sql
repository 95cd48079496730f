-- Removes the remaining signals of an instance, tombstones included.
-- Parameters: 1 instance.
-- Index: signals_dedup.
-- Bound: the signals of one instance.
delete from signals
where target_id = ?1
