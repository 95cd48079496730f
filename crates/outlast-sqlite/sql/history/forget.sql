-- Removes the histories of an instance's oldest runs.
-- Parameters: 1 instance, 2 the last run to remove.
-- Index: events_place.
-- Bound: one run, since each continue-as-new removes one.
delete from events
where instance_id = ?1 and run <= ?2
