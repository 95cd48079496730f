-- Removes the histories of all runs of an instance.
-- Parameters: 1 instance.
-- Index: events_place.
-- Bound: the kept runs, each with at most the events a run may have.
delete from events
where instance_id = ?1
