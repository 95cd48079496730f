-- Locks a worker's row before its lease is renewed: the lease then runs from when the row was to be had, not
-- from when it was asked for (docs/protocol.md, defect 16).
--
-- $1 worker
-- locks the worker's row; claims go on   index workers_pkey   bound one row
select w.id from outlast.workers w where w.id = $1 for no key update
