-- Removes ended instances with their signals and operations, unless their parent may still read them.
--
-- $1 ids
-- guard   ended; the parent does not live   locks own rows by id   index instances_pkey   bound BATCH_MAX
with
given as materialized (
    select i.id, i.status, p.id as parent_id
      from outlast.instances i
      left join outlast.instances p on p.id = i.parent_id and p.finished_at is null
     where i.id = any ($1)
),
doomed as materialized (
    select g.id from given g
     where g.parent_id is null and g.status in ('done', 'failed', 'cancelled')
),
signals as (
    delete from outlast.signals s using doomed d where s.target_id = d.id
),
operations as (
    delete from outlast.operations o using doomed d where o.instance_id = d.id
),
removed as (
    delete from outlast.instances i using doomed d where i.id = d.id returning i.id
)
select g.id, g.status, g.parent_id, g.id in (select r.id from removed r) as removed
  from given g
