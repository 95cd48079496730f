-- Keeps a worker from being reaped while it claims, and says whether its lease is alive.
--
-- $1 worker
-- locks the worker's row, shared: heartbeats go on, the reaper's lock does not   index workers_pkey
--
-- Locked whether the lease is alive or not: it may be renewed before claim/claim.sql, which decides by what it
-- finds then, and what it takes must not be reaped either.
select w.lease_expires_at > outlast.now() as is_alive
  from outlast.workers w
 where w.id = $1
   for key share
