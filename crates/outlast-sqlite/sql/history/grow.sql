-- Counts the events that an outcome adds to the history of its instance's present run.
-- Parameters: 1 id, 2 how many.
-- Guard: the outcome was written in this transaction, so its fence stood (I3).
-- Index: primary key of instances.
-- Bound: one row.
update instances
set events = events + ?2
where id = ?1
