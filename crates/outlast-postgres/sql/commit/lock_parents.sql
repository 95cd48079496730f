-- Locks the parents of instances that end, in the order of their ids.
--
-- $1 ids  $2 the revisions they were at before this transaction wrote them
-- guard   this transaction wrote them   locks parents by id   index instances_pkey   bound the batch
--
-- After the instances' own rows are written: who shares a parent waits for the other's counting and its disk,
-- and not for its rows too.
select p.id
  from (select distinct o.parent_id
          from (select i.parent_id
                  from unnest($1::bigint[], $2::bigint[]) as c (id, revision)
                  join outlast.instances i on i.id = any (array[c.id])
                                             and i.revision = c.revision + 1
                                             and i.xmin = pg_current_xact_id()::xid
                offset 0) as o
         where o.parent_id is not null) as e
  join outlast.instances p on p.id = any (array[e.parent_id])
 order by e.parent_id
   for no key update of p
