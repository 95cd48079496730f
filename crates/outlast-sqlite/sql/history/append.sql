-- Adds an event to a history.
-- Parameters: 1 instance, 2 run, 3 position, 4 at, 5 kind, 6 call or null, 7 name, 8 data.
-- Guard: events_place.
-- Bound: one row.
insert into events (instance_id, run, seq, at, kind, call, name, data)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
