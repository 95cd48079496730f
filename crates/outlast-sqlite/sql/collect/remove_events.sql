-- Removes the histories of all runs of an instance.
-- Parameters: 1 instance.
-- Index: events_place.
-- Bound: the runs that are kept, of as many events as one may have.
delete from events
where instance_id = ?1
