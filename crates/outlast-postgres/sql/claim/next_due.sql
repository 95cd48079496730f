-- How long until the next row of a queue becomes eligible.
--
-- $1 queue
-- locks none   index instances_pick   bound one probe per priority in use
with recursive
clock as materialized (
    select outlast.now() as now
),
priorities (priority) as (
    (select i.priority
       from outlast.instances i
      where i.status = 'runnable' and not i.blocked and i.queue = $1
      order by i.priority
      limit 1)
    union all
    select (select i.priority
              from outlast.instances i
             where i.status = 'runnable' and not i.blocked and i.queue = $1 and i.priority > p.priority
             order by i.priority
             limit 1)
      from priorities p
     where p.priority is not null
)
select (extract(epoch from min(d.eligible_at) - (select now from clock)) * 1000000)::bigint as due_us
  from priorities p
 cross join lateral (
       select i.eligible_at
         from outlast.instances i
        where i.status = 'runnable' and not i.blocked and i.queue = $1
          and i.priority = p.priority
          and i.eligible_at > (select now from clock)
        order by i.eligible_at, i.id
        limit 1) d
