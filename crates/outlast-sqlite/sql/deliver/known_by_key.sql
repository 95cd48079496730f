-- Returns the latest instance that holds or held a correlation key and has received this dedup
-- key, consumed or not.
-- Parameters: 1 machine, 2 key, 3 dedup key, 4 how many instances to examine.
-- Index: instances_keys, signals_dedup.
-- Bound: HOLDERS_MAX instances, one row of each.
select h.id
from (
    select id
    from instances
    where machine = ?1 and correlation_key = ?2
    order by id desc
    limit ?4
) as h
where exists (select 1 from signals s where s.target_id = h.id and s.dedup_key = ?3)
order by h.id desc
limit 1
