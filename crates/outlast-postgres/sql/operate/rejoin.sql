-- Counts retried children for their parents again, where the parent still waits for their round.
--
-- $1 ids  $2 revisions of the children
-- guard   the children's fence; the parent waits, and for this very round (I6)
-- locks   parents, held since operate/lock_parents.sql   index instances_pkey   bound BATCH_MAX
with
retried as materialized (
    select o.parent_id, o.parent_round, count(*)::integer as children
      from (select i.parent_id, i.parent_round
              from unnest($1::bigint[], $2::bigint[]) as c (id, revision)
              join outlast.instances i on i.id = any (array[c.id]) and i.revision = c.revision
            offset 0) as o
     where o.parent_id is not null
     group by o.parent_id, o.parent_round
)
update outlast.instances p
   set children_pending = p.children_pending + r.children,
       updated_at = outlast.now()
  from retried r
 where p.id = any (array[r.parent_id]) and p.round = r.parent_round and p.status = 'awaiting_children'
