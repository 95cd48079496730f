-- Gives window slots of children that were not started to the next children of the round.
--
-- Per round with a window: $1 parent id  $2 parent revision  $3 how many run at a time
-- guard   the parent's fence
-- locks   no new rows: no other transaction sees these children yet
-- index   instances_pkey, instances_children, instances_window
-- bound   CHILDREN_MAX
--
-- Sent if a child may have met an occupied key. commit/spawn.sql assigns the slots by position,
-- before that is known.
with
free as materialized (
    select p.id, p.round + 1 as round,
           g.places - (select count(*)
                         from outlast.instances c
                        where c.parent_id = p.id and c.parent_round = p.round + 1 and not c.held) as places
      from unnest($1::bigint[], $2::bigint[], $3::integer[]) as g (parent_id, parent_revision, places)
      join outlast.instances p on p.id = any (array[g.parent_id])
                                 and p.revision = g.parent_revision and p.status = 'executing'
),
next as materialized (
    select n.id
      from free f
     cross join lateral (
           select h.id
             from outlast.instances h
            where h.parent_id + 0 = f.id and h.parent_round = f.round and h.held and h.finished_at is null
            order by h.id
            limit greatest(f.places, 0)) n
)
update outlast.instances i
   set held = false,
       blocked = false,
       updated_at = outlast.now()
  from next n
 where i.id = any (array[n.id])
returning i.queue, i.eligible_at <= outlast.now() as eligible
