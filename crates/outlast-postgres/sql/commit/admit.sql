-- Passes the places of ended children in the windows of their rounds on to those who wait for one.
--
-- $1 ids  $2 the revisions the children were at before this transaction ended them
-- guard   this transaction ended them, and they had a place
-- locks   those who get a place, by parent, round and id   index instances_pkey, instances_window   bound the batch
--
-- Each place goes to one. Those who wait are all seen: they came with the same commit as whoever ends here. One that
-- somebody holds is waited for and looked at anew: when it has got a place from another meanwhile, or has ended,
-- the lock is not taken and the next one is tried. So of two siblings that end at once each lets in another one, and a
-- child that is cancelled while it waits leaves its turn to the next, without a lock on the parent, which may have
-- ended and be gone.
-- Before the parents: a child that ends before it got a place has locked itself, then its parent (operate/terminate.sql).
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
