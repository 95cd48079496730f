-- Locks workers whose lease has expired.
--
-- $1 how many
-- locks   workers' rows by id, skipping those that claim or beat right now
-- index   workers_pkey: all workers, who are few   bound $1
select w.id
  from outlast.workers w
 where w.lease_expires_at <= outlast.now()
 order by w.id
 limit $1
   for update skip locked
