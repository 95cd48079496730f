-- Removes old operations on queues and on deleted instances, which no stored instance keeps.
--
-- $1 retention in µs  $2 how many
-- locks   own rows, skipping locked ones
-- index   operations_stray, operations_pkey
-- bound   $2
delete from outlast.operations o
 where o.id = any (array(
                select p.id
                  from outlast.operations p
                 where p.at <= outlast.now() - $1::bigint * interval '1 microsecond'
                   and (p.instance_id is null or p.verb = 'delete')
                 order by p.at
                 limit $2
                   for update skip locked))
