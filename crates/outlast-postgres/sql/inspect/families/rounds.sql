-- Counts the children of an instance by round and status, newest rounds first, up to a bound.
--
-- $1 parent  $2 how many children
-- locks   none
-- index   instances_children
-- bound   $2
select c.parent_round, c.status, count(*) as children
  from (select i.parent_round,
               case when i.status = 'awaiting_signal' and coalesce(cardinality(i.awaits), 0) = 0 then 'sleeping'
                    else i.status end as status
          from outlast.instances i
         where i.parent_id = $1
         order by i.parent_round desc
         limit $2) c
 group by c.parent_round, c.status
