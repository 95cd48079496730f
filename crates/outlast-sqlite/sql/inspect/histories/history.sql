-- Returns the events of one run, in order.
-- Parameters: 1 instance, 2 run, 3 after this position, 4 limit.
-- Index: events_place.
-- Bound: the limit.
select run, seq, at, kind, call, name, data
from events
where instance_id = ?1 and run = ?2 and seq > ?3
order by seq
limit ?4
