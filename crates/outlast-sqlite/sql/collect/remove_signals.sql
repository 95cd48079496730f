-- Removes what is left of an inbox, tombstones included.
-- Parameters: 1 instance.
-- Index: unique (target_id, dedup_key) of signals.
-- Bound: the signals of one instance.
delete from signals
where target_id = ?1
