-- Locks workers whose lease has expired.
--
-- $1 how many
-- locks   workers' rows by id, skipping workers with a claim or a heartbeat in progress
-- index   workers_pkey: reads all workers, which are few
-- bound   $1
select w.id
  from outlast.workers w
 where w.lease_expires_at <= outlast.now()
 order by w.id
 limit $1
   for update skip locked
