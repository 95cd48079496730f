-- Where the history of an instance stands: which run it is in, and how many events that has.
-- Parameters: 1 id.
-- Index: primary key of instances.
-- Bound: one row.
--
-- A statement of its own: what returns rows while it writes is guarded by SQLite as if it could fail half way, which costs
-- more the more the transaction has written.
select run, events
from instances
where id = ?1
