-- Admits the first waiting child of a round into its window if no child runs there.
--
-- $1 ids of instances that wait for a slot
-- locks   the admitted rows
-- index   instances_pkey, instances_window
-- bound   the page
--
-- A finished child passes its slot on in the same transaction (window/admit.sql). So a round with
-- waiting children always has a running one.
with
rounds as materialized (
    select distinct o.parent_id, o.parent_round
      from (select i.parent_id, i.parent_round
              from unnest($1::bigint[]) as c (id)
              join outlast.instances i on i.id = any (array[c.id]) and i.held
            offset 0) as o
),
next as materialized (
    select n.id
      from rounds r
     cross join lateral (
           select h.id
             from outlast.instances h
            where h.parent_id + 0 = r.parent_id and h.parent_round = r.parent_round and h.held
              and h.finished_at is null
            order by h.id
            limit 1
              for no key update) n
     where not exists (select from outlast.instances h
                        where h.parent_id + 0 = r.parent_id and h.parent_round = r.parent_round
                          and h.held is not null and not h.held and h.finished_at is null
                       offset 0)
)
update outlast.instances i
   set held = false,
       blocked = false,
       updated_at = outlast.now()
  from next n
 where i.id = any (array[n.id])
returning i.id, i.queue
