-- Locks a worker's row before its lease ends or its claims are listed, so that no claim slips in.
--
-- $1 worker
-- locks   the worker's row
-- index   workers_pkey
select w.id from outlast.workers w where w.id = $1 for update
