-- Whether an instance was sent this dedup key before, consumed or not.
-- Parameters: 1 instance, 2 dedup key.
-- Index: signals_dedup.
-- Bound: one row.
select 1
from signals
where target_id = ?1 and dedup_key = ?2
