-- Counts finished children off their parents, and wakes a parent whose join is thereby decided.
--
-- $1 ids  $2 the children's revisions before this transaction ended them
-- guard   this transaction ended the children; the parent still waits, and for these children (I6)
-- locks   parents by id
-- index   instances_pkey
-- bound   the batch, and the child ranges that each workflow waits for
--
-- Sent after the children's rows are written. So two commits with the same parent wait for each
-- other's count only, not for each other's rows.
--
-- A parent is locked first and counted as it is then. If a deadline, a signal, a cancel or an end
-- came first, the parent no longer waits and nothing is counted. If this statement comes first,
-- those find the parent awake. So exactly one transaction decides a join.
--
-- A workflow is locked whether it waits or not. It may be about to park without having seen these
-- children finish (commit/park_workflow.sql). A machine that does not wait never waits for existing
-- children.
--
-- Children are counted per parent. `update … from` takes one source row per target, so two
-- siblings of one batch would count once. The parent would wait for ever (docs/protocol.md, defect
-- 5).
--
-- A machine waits for its current round. A workflow waits for join sets. A finished child counts
-- in each set that contains it, but a failed child counts as one failure.
--
-- A workflow that needs all waits on if signals or its deadline are missing. Its row shows this:
-- deliver/deliver.sql removes received names from `awaits`. This statement must not read the
-- inbox: if it waited for a lock, its snapshot may be too old. If a join is decided without some
-- children, a cascade is left for them when the fan-out has a policy.
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
-- The lock waits for other transactions and then reads the row again, so the counts are current.
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
-- Machines count the children of their round. Workflows, below, count per join set.
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
               = (select d.pending, d.joined, d.status,
                         -- It is null already. The server checks a new row's constraints before it
                         -- notices that another transaction has changed the row. A workflow was
                         -- executing then.
                         case when d.joined is null then p.locked_by end,
                         case when d.status = 'runnable' then outlast.now() else p.eligible_at end,
                         case when d.status <> 'runnable' then p.await_deadline end,
                         case when d.joined is null or d.status = any (p.correlation_scope)
                              then p.correlation_guard end
                    from (select coalesce(e.nearest, p.children_pending - e.children) as pending
                          offset 0) l
                   cross join lateral (
                         select outlast.joined(p.join_needs, p.join_fails_fast, p.children_started,
                                               l.pending, p.children_failed + e.failed) as joined
                         offset 0) j
                   cross join lateral (
                         select l.pending, j.joined,
                                case when j.joined is null then p.status
                                     when j.joined = 'all' and p.needs_all_revision = p.revision
                                          and (cardinality(p.awaits) > 0
                                               or p.await_deadline > outlast.now())
                                     then 'awaiting_signal'
                                     else 'runnable' end as status
                         offset 0) d),
           updated_at = outlast.now()
      from awaited e
     where p.id = any (array[e.id])
    returning p.id, p.queue, p.round, p.join_rest, p.joined, p.status = 'runnable' as released,
              p.status = 'runnable' and p.children_pending > 0 and p.join_rest is not null as cascades
),
-- Cascades to the children that the join was decided without.
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
