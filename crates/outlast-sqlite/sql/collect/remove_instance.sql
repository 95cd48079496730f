-- Removes a finished instance.
-- Parameters: 1 id.
-- Guard: the instance has finished.
-- Index: primary key of instances.
-- Bound: one row.
delete from instances
where id = ?1 and finished_at is not null
