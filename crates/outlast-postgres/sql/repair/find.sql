-- Finds the instances that nothing would ever wake, and says what is wrong with each. The pass, the
-- repair itself, the doctor and the liveness of an instance use it.
--
-- $1 ids  $2 whether to answer the instances that need no repair, too
-- locks   none. Each verb that ends a child, delivers a signal, or frees a key or a place also
--         wakes in its transaction. So a row that only looks lost is never committed
-- index   instances_pkey, instances_children, instances_window, instances_partition,
--         instances_line, signals_inbox
-- bound   the ids; for each the inbox of the awaited names, and the children of the rounds that it
--         waits for, once per join set
--
-- A parked row has the moment of its park in `eligible_at`. Its ranges of children may contain
-- children that it does not wait for: only an end after the park counts. `latest_signal` of a wait
-- that keeps signals is the last of them (commit/park.sql); later ones wake it.
with
given as materialized (
    select i.id, i.status, i.revision, i.round, i.eligible_at, i.awaits, i.await_deadline, i.latest_signal,
           i.partition_key, i.blocked, i.held, i.queue, i.machine, i.machine_version, i.priority,
           i.parent_id, i.parent_round, i.joined, i.join_needs, i.join_fails_fast,
           i.children_started, i.children_pending, i.children_failed,
           i.joining, i.joining_part, i.joining_first, i.joining_last, i.joining_left
      from unnest($1::bigint[]) as c (id)
      join outlast.instances i on i.id = any (array[c.id])
),
judged as materialized (
    select g.id,
           case when g.status = 'awaiting_signal' and coalesce(cardinality(g.awaits), 0) = 0 then 'sleeping'
                else g.status end as status,
           case
           -- A machine that waits for children waits for no signal.
           when g.status = 'awaiting_signal' or g.status = 'awaiting_children' and g.joining is not null then
               case when exists (select from outlast.signals s
                                  where s.target_id = g.id and s.name = any (g.awaits) and s.consumed_at is null
                                    and s.id > coalesce(g.latest_signal, 0)
                                 offset 0) then 'signal_arrived'
                    when g.status = 'awaiting_signal' then
                        case when coalesce(cardinality(g.awaits), 0) = 0 and g.await_deadline is null
                             then 'nothing_awaited' end
                    when (select count(*) = 0 or g.joined is not null or g.children_failed > 0
                                 or bool_or(l.ends is null or l.ends <= 0 or k.live = 0 or k.bad > 0)
                                 -- With one set, the count of the row shows all counted ends.
                                 or count(*) = 1 and max(k.ended) > greatest(g.children_started - max(l.ends), 0)
                            from unnest(coalesce(g.joining_left, array[g.children_pending]))
                                     with ordinality as l (ends, part)
                           cross join lateral (
                                 select count(*) filter (where n.finished_at is null) as live,
                                        count(*) filter (where n.finished_at > g.eligible_at) as ended,
                                        count(*) filter (where n.finished_at > g.eligible_at
                                                           and n.status <> 'done') as bad
                                   from outlast.spans(g.joining, g.joining_part, g.joining_first,
                                                      g.joining_last) as s
                                  cross join lateral (
                                        select n.finished_at, n.status
                                          from outlast.instances n
                                         where n.parent_id = g.id and n.parent_round = s.round
                                           and n.parent_position between s.first and s.last
                                        offset 0) n
                                  where s.part = l.part
                                 offset 0) k) then 'children_finished' end
           -- Older versions did not count failures. So they are checked only for fan-outs that
           -- recorded how many children they started.
           when g.status = 'awaiting_children' then
               (select case when g.children_pending <> c.pending
                              or g.children_failed <> c.failed and g.children_started > 0
                              or outlast.joined(g.join_needs, g.join_fails_fast, g.children_started,
                                                c.pending, c.failed) is not null
                            then 'children_miscounted' end
                  from (select count(*) filter (where n.finished_at is null)::integer as pending,
                               count(*) filter (where n.status in ('failed', 'cancelled'))::integer as failed
                          from outlast.instances n
                         where n.parent_id = g.id and n.parent_round = g.round
                        offset 0) c)
           when g.status <> 'runnable' or not g.blocked then null
           -- Only the first of a window gets the next place. A finished child passes its place on.
           when g.held then
               case when not exists (select from outlast.instances h
                                      where h.parent_id + 0 = g.parent_id and h.parent_round = g.parent_round
                                        and h.held is not null and not h.held and h.finished_at is null
                                     offset 0)
                     and not exists (select from outlast.instances h
                                      where h.parent_id + 0 = g.parent_id and h.parent_round = g.parent_round
                                        and h.held and h.finished_at is null and h.id < g.id
                                     offset 0) then 'place_is_free' end
           -- Only the first of a group gets the key. An instance in the group that is not set aside
           -- is claimed before it.
           when not exists (select from outlast.instances r
                             where r.status = 'executing' and r.partition_key = g.partition_key
                            offset 0)
            and not exists (select from outlast.instances l
                             where l.status = 'runnable' and l.partition_key = g.partition_key
                               and l.blocked = not g.blocked and l.held is not true
                               and l.queue = g.queue and l.machine = g.machine
                               and l.machine_version = g.machine_version
                            offset 0)
            and not exists (select from outlast.instances l
                             where l.status = 'runnable' and l.partition_key = g.partition_key
                               and l.blocked = g.blocked and l.held is not true
                               and l.queue = g.queue and l.machine = g.machine
                               and l.machine_version = g.machine_version
                               and (l.priority, l.eligible_at, l.id) < (g.priority, g.eligible_at, g.id)
                            offset 0) then 'key_is_free'
           end as need
      from given g
)
select j.id, j.status, j.need
  from judged j
 where $2 or j.need is not null
 order by j.id
