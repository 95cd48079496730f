-- Deletes finished instances with their signals, operations, histories and views.
--
-- Skips an instance that its parent may still read, or whose children a cascade must still handle.
--
-- $1 ids
-- guard   finished; the parent is not live; no cascade is left
-- locks   own rows by id
-- index   instances_pkey, signals_inbox, signals_dedup, signals_pkey, operations_instance,
--         cascades_parent, events_pkey, views_pkey
-- bound   BATCH_MAX, and all events and views of each
with
given as materialized (
    select i.id, i.status, i.run > 1 or i.events > 0 as has_history, p.id as parent_id,
           exists (select from outlast.cascades k where k.parent_id = i.id offset 0) as is_cascading
      from outlast.instances i
      left join outlast.instances p on p.id = any (array[i.parent_id]) and p.finished_at is null
     where i.id = any ($1)
),
doomed as materialized (
    select g.id, g.has_history from given g
     where g.parent_id is null and g.status in ('done', 'failed', 'cancelled') and not g.is_cascading
),
-- Tombstones too. Each branch can use one index only.
left_over as materialized (
    select s.id
      from doomed d
     cross join lateral (
           (select s.id from outlast.signals s where s.target_id = d.id and s.consumed_at is null)
           union all
           (select s.id from outlast.signals s
             where s.target_id = d.id and s.dedup_key is not null and s.consumed_at is not null)
           offset 0) s
),
signals as (
    delete from outlast.signals s using left_over l where s.id = any (array[l.id])
),
operations as (
    delete from outlast.operations o using doomed d where o.instance_id = any (array[d.id])
),
events as (
    delete from outlast.events v using doomed d where v.instance_id = any (array[d.id]) and d.has_history
),
views as (
    delete from outlast.views v using doomed d where v.instance_id = any (array[d.id]) and d.has_history
),
removed as (
    delete from outlast.instances i using doomed d where i.id = any (array[d.id]) returning i.id
)
select g.id, g.parent_id, g.is_cascading, g.id in (select r.id from removed r) as removed
  from given g
