-- Unblocks instances behind a partition key that has no executing row and no unblocked row.
--
-- $1 ids
-- locks   own rows
-- index   instances_pkey, instances_partition, instances_line
-- bound   the page
update outlast.instances i
   set blocked = false
 where i.id = any ($1)
   and i.status = 'runnable' and i.blocked and i.held is not true
   and not exists (select from outlast.instances r
                    where r.status = 'executing' and r.partition_key = i.partition_key
                  offset 0)
   and not exists (select from outlast.instances l
                    where l.status = 'runnable' and l.partition_key = i.partition_key
                      and l.blocked = not i.blocked and l.held is not true
                      and l.queue = i.queue and l.machine = i.machine and l.machine_version = i.machine_version
                   offset 0)
returning i.id, i.queue
