-- Locks the next page of children of a cascade by id, and returns their current state.
--
-- $1 cascade, locked by cascade/take.sql  $2 how many
-- locks   own rows by id
-- index   cascades_pkey, instances_children, instances_pkey
-- bound   $2
--
-- All children of these rounds are visible. Either the parent has finished, or the cascade was
-- written under the parent's lock. A fan-out holds that lock until its children are committed. A
-- child that is deleted while this statement waits for its lock is missing, and no other takes its
-- place: the page is short, and cascade/remove.sql decides whether it was the last.
with
page as materialized (
    select n.id, n.parent_round
      from outlast.cascades k
     cross join lateral (
           select c.id, c.parent_round
             from outlast.instances c
            where c.parent_id = k.parent_id and c.parent_round >= k.from_round
              and (c.parent_round, c.id) < (k.at_round, k.before_id)
            order by c.parent_round desc, c.id desc
            limit $2) n
     where k.id = $1
)
select i.id, i.revision, i.round, i.held, i.on_parent_close, i.cancel_requested_at is not null as is_asked,
       case when i.status = 'awaiting_signal' and coalesce(cardinality(i.awaits), 0) = 0 then 'sleeping'
            else i.status end as status,
       p.parent_round
  from page p
  join outlast.instances i on i.id = any (array[p.id])
 order by p.id
   for no key update of i
