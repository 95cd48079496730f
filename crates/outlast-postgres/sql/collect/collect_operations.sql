-- Removes old records of operations on queues and on instances that are gone.
--
-- $1 retention in µs  $2 how many
-- locks own rows   index operations_at, operations_pkey, instances_pkey   bound $2
delete from outlast.operations o
 where o.id = any (array(
                select p.id
                  from outlast.operations p
                 where p.at <= outlast.now() - $1::bigint * interval '1 microsecond'
                   and not exists (select from outlast.instances i where i.id = p.instance_id
                                   offset 0)
                 order by p.at
                 limit $2
                   for update skip locked))
