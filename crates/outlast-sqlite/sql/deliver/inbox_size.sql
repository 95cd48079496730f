-- Counts the unconsumed signals of an instance.
-- Parameters: 1 instance.
-- Index: signals_target.
-- Bound: INBOX_MAX.
select count(*)
from signals
where consumed_at is null and target_id = ?1
