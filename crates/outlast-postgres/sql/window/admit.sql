-- Passes the window slots of finished children on to siblings that wait for one.
--
-- $1 ids  $2 the children's revisions before this transaction ended them
-- guard   this transaction ended the children, and they had a slot
-- locks   the admitted rows, by parent, round and id
-- index   instances_pkey, instances_window
-- bound   the batch
--
-- Each slot goes to one sibling. All waiting siblings are visible: one commit started them
-- together with the children that end here.
--
-- If another transaction has a waiting sibling locked, this statement waits and checks the row
-- again. If the row got a slot or finished in the meantime, it no longer matches and the next row
-- is tried. So two siblings that finish at once admit two different rows. A child that is
-- cancelled while it waits leaves its turn to the next. No lock on the parent is needed; it may be
-- finished and deleted.
--
-- Sent before the parents are locked (join/join.sql): a terminated child that waits for a slot
-- locks itself, then its parent (operate/terminate.sql).
with
ended as materialized (
    select o.parent_id, o.parent_round, count(*) as places
      from (select i.parent_id, i.parent_round, i.held
              from unnest($1::bigint[], $2::bigint[]) as c (id, revision)
              join outlast.instances i on i.id = any (array[c.id])
                                         and i.revision = c.revision + 1
                                         and i.xmin = pg_current_xact_id()::xid
            offset 0) as o
     where not o.held
     group by o.parent_id, o.parent_round
     order by o.parent_id, o.parent_round
),
next as materialized (
    select n.id
      from ended e
     cross join lateral (
           select h.id
             from outlast.instances h
            where h.parent_id + 0 = e.parent_id and h.parent_round = e.parent_round and h.held
              and h.finished_at is null
            order by h.id
            limit e.places
              for no key update) n
)
update outlast.instances i
   set held = false,
       blocked = false,
       updated_at = outlast.now()
  from next n
 where i.id = any (array[n.id])
returning i.queue, i.eligible_at <= outlast.now() as eligible
