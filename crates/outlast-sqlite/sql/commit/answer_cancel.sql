-- Marks a cancel as answered: the machine has decided how to react to it.
-- Parameters: 1 id.
-- Guard: a cancel was requested.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set cancel_answered = 1
where id = ?1 and cancel_requested_at is not null
