-- Locks the claims of dead workers.
--
-- $1 workers, locked by reap/workers.sql  $2 how many
-- locks   own rows, skipping rows whose commit is in progress
-- index   instances_locked
-- bound   $2
select i.id, i.revision, i.crashes, i.crashes_counted, i.locked_by, i.step, i.round, i.held
  from outlast.instances i
 where i.status = 'executing' and i.locked_by = any ($1)
 order by i.locked_by, i.id
 limit $2
   for no key update skip locked
