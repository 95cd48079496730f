-- Returns the first instance, from an id on, with an unconsumed signal. One step of a skip scan
-- over the index.
-- Parameters: 1 id.
-- Index: signals_target.
-- Bound: one row.
select target_id
from signals
where consumed_at is null and target_id >= ?1
order by target_id
limit 1
