-- Keeps a worker from being reaped while it claims, and returns whether its lease is alive.
--
-- $1 worker
-- locks   the worker's row, shared: heartbeats do not wait for it, and the reaper skips it
-- index   workers_pkey
--
-- The row is locked even if the lease has expired. It may be renewed before claim/claim.sql, which
-- checks it again, and the rows claimed then must not be reaped either.
select w.lease_expires_at > outlast.now() as is_alive
  from outlast.workers w
 where w.id = $1
   for key share
