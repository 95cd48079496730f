-- Checks whether an instance has ever received this dedup key. Consumed signals and finished
-- instances count too.
-- Parameters: 1 instance, 2 dedup key.
-- Index: signals_dedup.
-- Bound: one row.
select target_id
from signals
where target_id = ?1 and dedup_key = ?2
