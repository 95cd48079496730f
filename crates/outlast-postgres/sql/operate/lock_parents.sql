-- Locks the parents of instances that are retried, by id.
--
-- $1 ids, locked since operate/lock.sql
-- locks   parents by id
-- index   instances_pkey
-- bound   BATCH_MAX
--
-- Sent before the instances are written: a parent that wakes in the meantime did not wait for
-- them.
select p.id
  from (select distinct o.parent_id
          from (select i.parent_id
                  from unnest($1::bigint[]) as c (id)
                  join outlast.instances i on i.id = any (array[c.id])
                offset 0) as o
         where o.parent_id is not null) as e
  join outlast.instances p on p.id = any (array[e.parent_id])
 order by e.parent_id
   for no key update of p
