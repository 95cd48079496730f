-- Checks whether a parked instance has an awaited signal in its inbox that came after its park. A
-- wait that keeps signals has the last of them in latest_signal.
-- Parameters: 1 id.
-- Index: primary key of instances, signals_target.
-- Bound: the inbox of the awaited names.
select 1
from instances
join json_each(instances.awaits) as awaited
join signals
    on signals.target_id = instances.id and signals.name = awaited.value
    and signals.consumed_at is null and signals.id > coalesce(instances.latest_signal, 0)
where instances.id = ?1
limit 1
