-- Adds an event to the history of an instance's present run, which has been counted longer by it and its neighbours.
-- Parameters: 1 instance, 2 how many of that commit come after it, 3 at, 4 kind, 5 call or null, 6 name, 7 data.
-- Guard: the outcome was written in this transaction, so its fence stood (I3); events_place.
-- Index: primary key of instances.
-- Bound: one row.
--
-- It reads its place where the update before has written it: that update cannot return it, since what returns rows
-- while it writes is guarded by SQLite as if it could fail half way, which costs more the more the transaction has written.
insert into events (instance_id, run, seq, at, kind, call, name, data)
select id, run, events - ?2, ?3, ?4, ?5, ?6, ?7
from instances
where id = ?1
