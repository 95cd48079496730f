-- Locks the parents of instances that end, in the order of their ids.
--
-- $1 ids  $2 revisions  $3 whether they must be claimed, as for a commit
-- guard   the fence   locks parents by id   index instances_pkey   bound the batch
select p.id
  from (select distinct o.parent_id
          from (select i.parent_id
                  from unnest($1::bigint[], $2::bigint[]) as c (id, revision)
                  join outlast.instances i on i.id = any (array[c.id])
                                             and i.revision = c.revision and (i.status = 'executing' or not $3)
                offset 0) as o
         where o.parent_id is not null) as e
  join outlast.instances p on p.id = any (array[e.parent_id])
 order by e.parent_id
   for no key update of p
