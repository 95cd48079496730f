-- Repairs the child counts of parents, and wakes parents whose join is decided.
--
-- Also wakes workflows that wait for a join set without a live child.
--
-- $1 ids, locked by deliver/lock.sql
-- locks   own rows, held
-- index   instances_pkey, instances_children
-- bound   the page, and for each row the children of the rounds that it waits for, once per join
--         set
--
-- Older versions did not count failures. So they are checked only for fan-outs that recorded how
-- many children they started.
with
-- Machines whose counts are wrong, or whose join is decided although they still wait.
counted as materialized (
    select p.id, c.pending, c.failed, c.first_failure, p.children_failed,
           outlast.joined(p.join_needs, p.join_fails_fast, p.children_started, c.pending, c.failed) as joined
      from outlast.instances p
     cross join lateral (
           select count(*) filter (where n.finished_at is null)::integer as pending,
                  count(*) filter (where n.status in ('failed', 'cancelled'))::integer as failed,
                  (array_agg(n.id order by n.finished_at, n.id)
                       filter (where n.status in ('failed', 'cancelled')))[1] as first_failure
             from outlast.instances n
            where n.parent_id = p.id and n.parent_round = p.round
           offset 0) c
     where p.id = any ($1) and p.status = 'awaiting_children' and p.joining is null
       and (p.children_pending <> c.pending
            or p.children_failed <> c.failed and p.children_started > 0
            or outlast.joined(p.join_needs, p.join_fails_fast, p.children_started, c.pending, c.failed) is not null)
),
-- A workflow also waits for children outside these ranges. So its counts stay as they are: once
-- woken, it looks for itself.
alone as materialized (
    select p.id
      from outlast.instances p
     where p.id = any ($1) and p.status = 'awaiting_children' and p.joining is not null
       and exists (select
                     from unnest(coalesce(p.joining_left, array[p.children_pending])) with ordinality as l (ends, part)
                    where not exists (select
                                        from outlast.spans(p.joining, p.joining_part, p.joining_first, p.joining_last) as s
                                       cross join lateral (
                                             select from outlast.instances n
                                              where n.parent_id = p.id and n.parent_round = s.round
                                                and n.parent_position between s.first and s.last
                                                and n.finished_at is null
                                             offset 0) n
                                       where s.part = l.part
                                      offset 0)
                   offset 0)
),
woken as (
    update outlast.instances p
       set joined = 'all',
           status = 'runnable',
           eligible_at = outlast.now(),
           await_deadline = null,
           correlation_guard = case when 'runnable' = any (p.correlation_scope) then p.correlation_guard end,
           updated_at = outlast.now()
      from alone a
     where p.id = any (array[a.id])
    returning p.id, p.queue
),
mended as (
    update outlast.instances p
       set children_pending = c.pending,
           children_failed = c.failed,
           first_failure = case when c.failed > 0 then coalesce(p.first_failure, c.first_failure) end,
           joined = c.joined,
           status = case when c.joined is null then p.status else 'runnable' end,
           eligible_at = case when c.joined is null then p.eligible_at else outlast.now() end,
           await_deadline = case when c.joined is null then p.await_deadline end,
           correlation_guard = case when c.joined is null or 'runnable' = any (p.correlation_scope)
                                    then p.correlation_guard end,
           updated_at = outlast.now()
      from counted c
     where p.id = any (array[c.id])
    returning p.id, p.queue, p.round, p.join_rest, p.joined, p.status = 'runnable' as released,
              p.status = 'runnable' and p.children_pending > 0 and p.join_rest is not null as cascades
),
-- Cascades to the children that the join was decided without.
told as (
    insert into outlast.cascades
           (parent_id, from_round, upto_round, at_round, action, deep, operator, reason, created_at)
    select m.id, m.round, m.round, m.round, case m.join_rest when 'request_cancel' then 'cancel' else m.join_rest end,
           false, 'parent', format('the join of parent %s was decided: %s', m.id, m.joined), outlast.now()
      from mended m
     where m.cascades
     order by m.id
)
select m.id, m.queue, m.released
  from mended m
union all
select w.id, w.queue, true
  from woken w
