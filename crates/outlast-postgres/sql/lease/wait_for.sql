-- Locks a worker's row before its lease is renewed.
--
-- The lease then runs from the time of the lock, not from the time of the request
-- (docs/protocol.md, defect 16).
--
-- $1 worker
-- locks   the worker's row; claims do not wait for it
-- index   workers_pkey
-- bound   one row
select w.id from outlast.workers w where w.id = $1 for no key update
