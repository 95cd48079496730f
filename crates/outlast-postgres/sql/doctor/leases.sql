-- Counts claims of workers whose lease has expired.
--
-- $1 how many claims are counted at most
-- locks   none
-- index   instances_locked
-- bound   $1 claims of the registered workers
select count(*) as claims,
       count(distinct held.worker) as workers,
       (extract(epoch from outlast.now() - min(held.lease_expires_at)) * 1000000)::bigint as longest_us
  from (select w.id as worker, w.lease_expires_at
          from outlast.workers w
         cross join lateral (select from outlast.instances i where i.locked_by = w.id limit $1) claim
         where w.lease_expires_at <= outlast.now()
         limit $1) held
