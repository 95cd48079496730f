-- Returns the present run of an instance and its number of events.
-- Parameters: 1 id.
-- Index: primary key of instances.
-- Bound: one row.
--
-- A separate statement, instead of `returning` on the write: SQLite guards a write that returns
-- rows as if it could fail half-way. That guard costs more the more the transaction has written.
select run, events
from instances
where id = ?1
