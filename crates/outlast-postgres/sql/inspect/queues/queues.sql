-- Lists queues that have runnable or executing instances or are paused, with bounded counts.
--
-- $1 where to stop counting
-- locks   none
-- index   instances_pick, instances_locked, instances_line
-- bound   $1 rows per queue and count, and the statement timeout
with recursive
clock as materialized (
    select outlast.now() as now
),
-- The queues with runnable rows, by one index probe each.
waiting (name) as (
    (select i.queue from outlast.instances i
      where i.status = 'runnable' and not i.blocked
      order by i.queue limit 1)
    union all
    select (select i.queue from outlast.instances i
             where i.status = 'runnable' and not i.blocked and i.queue > w.name
             order by i.queue limit 1)
      from waiting w
     where w.name is not null
),
running as materialized (
    select e.queue as name, count(*) as executing
      from (select i.queue from outlast.instances i where i.locked_by is not null limit $1) as e
     group by e.queue
),
set_aside as materialized (
    select i.queue as name, i.eligible_at
      from outlast.instances i
     where i.status = 'runnable' and i.partition_key is not null and i.blocked and i.held is not true
     limit $1
),
named as materialized (
    select w.name from waiting w where w.name is not null
    union select r.name from running r
    union select s.name from set_aside s
    union select q.name from outlast.queues q
)
select n.name,
       exists (select from outlast.queues q where q.name = n.name) as paused,
       e.instances + s.instances as eligible,
       d.instances as delayed,
       coalesce((select r.executing from running r where r.name = n.name), 0) as executing,
       least(e.oldest, s.oldest) as oldest_eligible_at
  from named n
 cross join lateral (
       select count(*) as instances, min(p.eligible_at) as oldest
         from (select i.eligible_at
                 from outlast.instances i
                where i.status = 'runnable' and not i.blocked and i.queue = n.name
                  and i.eligible_at <= (select now from clock)
                limit $1) as p) e
 cross join lateral (
       select count(*) as instances
         from (select
                 from outlast.instances i
                where i.status = 'runnable' and not i.blocked and i.queue = n.name
                  and i.eligible_at > (select now from clock)
                limit $1) as p) d
 cross join lateral (
       select count(*) as instances, min(b.eligible_at) as oldest
         from set_aside b
        where b.name = n.name) s
 order by n.name
