-- Adds to the event count of an instance's present run.
-- Parameters: 1 id, 2 events added.
-- Guard: this transaction has written the outcome, so its fence held (I3).
-- Index: primary key of instances.
-- Bound: one row.
update instances
set events = events + ?2
where id = ?1
