-- Whether an instance was sent this dedup key before, consumed or not, ended or not.
-- Parameters: 1 instance, 2 dedup key.
-- Index: signals_dedup.
-- Bound: one row.
select target_id
from signals
where target_id = ?1 and dedup_key = ?2
