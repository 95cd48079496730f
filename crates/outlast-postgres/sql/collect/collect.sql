-- Removes finished instances after their retention, with their signals, operations, histories and
-- views.
--
-- $1 retention in µs  $2 how many
-- guard   no live parent could still read the instance (docs/protocol.md, defect 6), and no
--         cascade to its children is left
-- locks   own rows by time of their end, skipping locked ones
-- index   instances_finished, instances_pkey, signals_inbox, signals_dedup, signals_pkey,
--         operations_instance, cascades_parent, events_pkey, views_pkey
-- bound   $2, and all events and views of each
with
expired as materialized (
    select i.id, i.finished_at, i.run > 1 or i.events > 0 as has_history
      from outlast.instances i
     where i.finished_at <= outlast.now() - $1::bigint * interval '1 microsecond'
       and not exists (select from outlast.instances p where p.id = i.parent_id and p.finished_at is null
                       offset 0)
       and not exists (select from outlast.cascades k where k.parent_id = i.id offset 0)
     order by i.finished_at, i.id
     limit $2
       for update skip locked
),
-- Tombstones too. Each branch can use one index only.
left_over as materialized (
    select s.id
      from expired e
     cross join lateral (
           (select s.id from outlast.signals s where s.target_id = e.id and s.consumed_at is null)
           union all
           (select s.id from outlast.signals s
             where s.target_id = e.id and s.dedup_key is not null and s.consumed_at is not null)
           offset 0) s
),
signals as (
    delete from outlast.signals s using left_over l where s.id = any (array[l.id])
),
operations as (
    delete from outlast.operations o using expired e where o.instance_id = any (array[e.id])
),
events as (
    delete from outlast.events v using expired e where v.instance_id = any (array[e.id]) and e.has_history
),
views as (
    delete from outlast.views v using expired e where v.instance_id = any (array[e.id]) and e.has_history
),
removed as (
    delete from outlast.instances i using expired e where i.id = any (array[e.id])
    returning i.id, i.finished_at
)
select r.id
  from removed r
 order by r.finished_at, r.id
