-- Renews a lease from now: one small write, however many claims the worker has.
--
-- $1 worker  $2 lease in µs
-- locks   the worker's row, held since lease/wait_for.sql
-- index   workers_pkey
update outlast.workers w
   set heartbeat_at = outlast.now(),
       lease_expires_at = outlast.now() + $2::bigint * interval '1 microsecond'
 where w.id = $1
returning w.id
