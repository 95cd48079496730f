-- Removes what is left of an inbox, tombstones included.
-- Parameters: 1 instance.
-- Index: signals_dedup.
-- Bound: the signals of one instance.
delete from signals
where target_id = ?1
