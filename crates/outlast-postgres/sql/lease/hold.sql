-- Keeps a worker from being reaped while it claims; answers nothing when its lease is not alive.
--
-- $1 worker
-- locks the worker's row, shared: heartbeats go on, the reaper's lock does not   index workers_pkey
select w.id
  from outlast.workers w
 where w.id = $1 and w.lease_expires_at > outlast.now()
   for key share
