-- Removes dead workers without claims.
--
-- $1 workers, locked by reap/workers.sql
-- locks   workers' rows, held
-- index   workers_pkey, instances_locked
-- bound   the workers given
delete from outlast.workers w
 where w.id = any ($1)
   and not exists (select from outlast.instances i where i.status = 'executing' and i.locked_by = w.id
                   offset 0)
returning w.id
