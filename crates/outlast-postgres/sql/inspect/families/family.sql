-- Counts an instance and its descendants by status, up to a bound.
--
-- $1 id  $2 how many
-- locks   none
-- index   instances_pkey, instances_children
-- bound   $2, plus one
--
-- The limit stops the recursion: children are read only when the count reaches them.
with recursive
family (id, status) as (
    select i.id,
           case when i.status = 'awaiting_signal' and coalesce(cardinality(i.awaits), 0) = 0 then 'sleeping'
                else i.status end
      from outlast.instances i
     where i.id = $1
    union all
    select c.id, c.status
      from family f
     cross join lateral (
           select c.id,
                  case when c.status = 'awaiting_signal' and coalesce(cardinality(c.awaits), 0) = 0 then 'sleeping'
                       else c.status end as status
             from outlast.instances c
            where c.parent_id = f.id
           offset 0) c
)
select m.status, count(*) filter (where m.nth <= $2) as members, bool_or(m.nth > $2) as is_cut
  from (select f.status, row_number() over () as nth from family f limit $2 + 1) m
 group by m.status
