-- Counts ended children off their parents, and wakes a parent whose join is decided by that.
--
-- $1 ids  $2 the revisions the children were at before this transaction ended them
-- guard   this transaction ended them; the parent still waits, and for these very children (I6)
-- locks   parents by id   index instances_pkey   bound the batch, and the spans that each workflow waits for
--
-- After the children's own rows are written: who shares a parent waits for the other's counting and its disk, and
-- not for its rows too. A parent is locked first and looked at as it is then, which is all that the count depends on: when
-- a deadline, a signal, a cancel or an end came first it waits no more, and nothing is counted; when this comes first,
-- those find a parent that is awake. So whoever decides a join is one alone.
-- A workflow is locked whether it waits or not: it may be about to park, and then has not seen these ends
-- (commit/flow.sql). A machine that does not wait never waits for children that it has already.
-- Counted per parent: `update … from` takes one source row per target, so two siblings in one batch would count once and the
-- parent would wait for ever (docs/protocol.md, defect 5). A machine waits for its present round. A workflow waits for parts: an end is
-- counted in each that has the child, and is one bad end all the same.
-- Children that it was decided without are left to a cascade, when the fan-out said so.
with
ended as materialized (
    select o.parent_id, array_agg(o.parent_round) as rounds, array_agg(o.parent_position) as positions,
           array_agg(o.id) as ids, array_agg(o.status <> 'done') as bad
      from (select i.id, i.parent_id, i.parent_round, i.parent_position, i.status
              from unnest($1::bigint[], $2::bigint[]) as c (id, revision)
              join outlast.instances i on i.id = any (array[c.id])
                                         and i.revision = c.revision + 1
                                         and i.xmin = pg_current_xact_id()::xid
            offset 0) as o
     where o.parent_id is not null
     group by o.parent_id
),
parents as materialized (
    select p.id, p.status, p.round, p.joining, p.joining_part, p.joining_first, p.joining_last,
           coalesce(p.joining_left, array[p.children_pending]) as joining_left,
           e.rounds, e.positions, e.ids, e.bad
      from ended e
      join outlast.instances p on p.id = any (array[e.parent_id])
                                 and (p.status = 'awaiting_children' or p.joining is not null)
     order by e.parent_id
       for no key update of p
),
awaited as materialized (
    select p.id, e.children, e.failed, e.first_failure, null::integer[] as left_over, null::integer as nearest
      from parents p
     cross join lateral (
           select count(*)::integer as children, count(*) filter (where e.is_bad)::integer as failed,
                  min(e.id) filter (where e.is_bad) as first_failure
             from unnest(p.rounds, p.ids, p.bad) as e (round, id, is_bad)
            where e.round = p.round
           offset 0) e
     where p.status = 'awaiting_children' and p.joining is null and e.children > 0
    union all
    select p.id, null, e.failed, e.first_failure, l.left_over, l.nearest
      from parents p
     cross join lateral (
           select array_agg(s.part) as parts, count(distinct e.id) filter (where e.is_bad)::integer as failed,
                  min(e.id) filter (where e.is_bad) as first_failure
             from unnest(p.rounds, p.positions, p.ids, p.bad) as e (round, position, id, is_bad)
             join outlast.spans(p.joining, p.joining_part, p.joining_first, p.joining_last) as s
               on s.round = e.round and e.position between s.first and s.last
           offset 0) e
     cross join lateral (
           select array_agg(c.left_over order by c.part) as left_over, min(c.left_over) as nearest
             from (select c.part, greatest(c.ends - (select count(*) from unnest(e.parts) as t (part)
                                                      where t.part = c.part), 0)::integer as left_over
                     from unnest(p.joining_left) with ordinality as c (ends, part)
                   offset 0) as c
           offset 0) l
     where p.status = 'awaiting_children' and p.joining is not null and e.parts is not null
),
counted as (
    update outlast.instances p
       set children_failed = p.children_failed + e.failed,
           first_failure = coalesce(p.first_failure, e.first_failure),
           joining_left = e.left_over,
           (children_pending, joined, status, locked_by, eligible_at, await_deadline, correlation_guard)
               = (select d.pending, d.joined,
                         case when d.joined is null then p.status else 'runnable' end,
                         -- Null already. What this makes of a row is checked before it is seen that another has
                         -- written the row since, and a workflow executed then.
                         case when d.joined is null then p.locked_by end,
                         case when d.joined is null then p.eligible_at else outlast.now() end,
                         case when d.joined is null then p.await_deadline end,
                         case when d.joined is null or 'runnable' = any (p.correlation_scope)
                              then p.correlation_guard end
                    from (select l.pending,
                                 outlast.joined(p.join_needs, p.join_fails_fast, p.children_started, l.pending,
                                                p.children_failed + e.failed) as joined
                            from (select coalesce(e.nearest, p.children_pending - e.children) as pending) as l)
                      as d),
           updated_at = outlast.now()
      from awaited e
     where p.id = any (array[e.id])
    returning p.id, p.queue, p.round, p.join_rest, p.joined, p.status = 'runnable' as released,
              p.status = 'runnable' and p.children_pending > 0 and p.join_rest is not null as cascades
),
told as (
    insert into outlast.cascades
           (parent_id, from_round, upto_round, at_round, action, deep, operator, reason, created_at)
    select c.id, c.round, c.round, c.round, case c.join_rest when 'request_cancel' then 'cancel' else c.join_rest end,
           false, 'parent', format('the join of parent %s was decided: %s', c.id, c.joined), outlast.now()
      from counted c
     where c.cascades
     order by c.id
)
select c.queue, c.released, c.cascades
  from counted c
