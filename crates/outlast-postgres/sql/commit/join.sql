-- Counts ended children off their parents, and releases a parent with none left.
--
-- $1 ids  $2 the revisions the children were at before this transaction ended them
-- guard   this transaction ended them; the parent still waits, and for this very round (I6)
-- locks   parents by id   index instances_pkey   bound the batch
--
-- After the children's own rows are written: who shares a parent waits for the other's counting and its disk, and
-- not for its rows too. A parent that was waited for is looked at anew, which is all that the count depends on.
-- Counted per parent first: `update … from` takes one source row per target, so two siblings in one
-- batch would count once and the parent would wait for ever (PROTOCOL §3 #5).
with
ended as materialized (
    select o.parent_id, o.parent_round, count(*)::integer as children
      from (select i.parent_id, i.parent_round
              from unnest($1::bigint[], $2::bigint[]) as c (id, revision)
              join outlast.instances i on i.id = any (array[c.id])
                                         and i.revision = c.revision + 1
                                         and i.xmin = pg_current_xact_id()::xid
            offset 0) as o
     where o.parent_id is not null
     group by o.parent_id, o.parent_round
     order by o.parent_id, o.parent_round
)
update outlast.instances p
   set children_pending = p.children_pending - e.children,
       status = case when p.children_pending = e.children then 'runnable' else p.status end,
       eligible_at = case when p.children_pending = e.children then outlast.now() else p.eligible_at end,
       correlation_guard = case when p.children_pending > e.children or 'runnable' = any (p.correlation_scope)
                                then p.correlation_guard end,
       updated_at = outlast.now()
  from ended e
 where p.id = any (array[e.parent_id]) and p.round = e.parent_round and p.status = 'awaiting_children'
returning p.queue, p.status = 'runnable' as released
