-- Writes outcomes of workflows that park or have started children.
--
-- It is the first statement of a commit that writes outcomes. It looks at children before any row
-- of the batch finishes. Children that finish later in the batch find the workflow parked
-- (join/join.sql).
--
-- $1 ids  $2 revisions  $3 the new status if it does not park: executing or runnable; else null
-- $4 whether it answers a cancel  $5 whether it has started children
-- $6 whether commit/report_dropped.sql has run for it
-- $7 the window of the children it has started, or null
-- and for a park: $8 awaited names as an array literal, or null
-- $9 deadline in µs from now, or $10 its time in µs
-- and for join sets, as array literals or null: of each child range $11 its round
-- $12 its join set  $13 its first and $14 its last position
-- $15 how many children each join set awaits  $16 awaited children of earlier commits and
-- $17 the join set of each
-- $18 whether it needs all: then it waits for everything that is missing
-- guard   the fence, and that the row executes. No index fits the second condition alone, so it
--         gives the planner no choice. A row with an unanswered cancel is not written
-- locks   own rows, held since commit/lock.sql
-- index   instances_pkey, signals_inbox
-- bound   the batch, and CHILDREN_MAX awaited children for each row
--
-- A transaction that ends a child locks this row before it reads its join sets. If it committed
-- before commit/lock.sql got the lock, this statement sees the finished child. Otherwise it waits
-- for that lock and finds the row that this statement has written (docs/protocol.md, defect 2).
--
-- For its parent, a child that was not started counts as failed, and so does a deleted child.
with
clock as materialized (
    select outlast.now() as now
),
given as materialized (
    select c.id, c.revision, c.status, c.answers, c.starts, c.reported, c.places, c.names::text[] as names,
           c.after_us, c.at_us, c.rounds::integer[] as rounds, c.parts::integer[] as parts,
           c.firsts::integer[] as firsts, c.lasts::integer[] as lasts, c.counts::integer[] as counts,
           c.children::bigint[] as children, c.awaited_by::integer[] as awaited_by, c.needs_all
      from unnest($1::bigint[], $2::bigint[], $3::text[], $4::boolean[], $5::boolean[], $6::boolean[], $7::integer[],
                  $8::text[], $9::bigint[], $10::bigint[], $11::text[], $12::text[], $13::text[], $14::text[],
                  $15::text[], $16::text[], $17::text[], $18::boolean[])
        as c (id, revision, status, answers, starts, reported, places, names, after_us, at_us, rounds, parts, firsts,
              lasts, counts, children, awaited_by, needs_all)
),
-- The fenced rows, and how many children of each join set have not finished.
found as materialized (
    select i.id, g.revision, g.status, g.answers, g.starts, g.reported, g.places, g.names, g.after_us, g.at_us,
           g.rounds, g.parts, g.firsts, g.lasts, g.needs_all, i.cancel_requested_at,
           i.cancel_reason,
           i.cancel_requested_at is not null and not i.cancel_answered and not g.answers as is_cancelled,
           l.left_over, l.nearest, l.least, s.bad, s.bad + s.gone > 0
               or g.reported and i.children_dropped is not null and i.round + 1 = any (g.rounds) as is_bad
      from given g
      join outlast.instances i on i.id = any (array[g.id])
                                 and i.revision = g.revision and i.status = 'executing'
     cross join lateral (
           select array_agg(c.part) filter (where n.finished_at is not null) as ended,
                  count(distinct n.id) filter (where n.status in ('failed', 'cancelled'))::integer as bad,
                  count(*) filter (where n.id is null)::integer as gone
             from unnest(g.children, g.awaited_by) as c (id, part)
             left join lateral (
                  select n.id, n.status, n.finished_at
                    from outlast.instances n
                   where n.id = any (array[c.id])
                  offset 0) n on true
           offset 0) s
     cross join lateral (
           select array_agg(c.left_over order by c.part) as left_over, min(c.left_over) as nearest, min(c.ends) as least
             from (select c.part, c.ends,
                          greatest(c.ends - (select count(*) from unnest(s.ended) as t (part)
                                              where t.part = c.part), 0)::integer as left_over
                     from unnest(g.counts) with ordinality as c (ends, part)
                   offset 0) as c
           offset 0) l
),
-- The names still awaited. The lock has been held since commit/lock.sql, so the inbox is current.
looked as materialized (
    select f.*,
           coalesce(timestamptz 'epoch' + f.at_us * interval '1 microsecond',
                    k.now + f.after_us * interval '1 microsecond') as deadline,
           case when f.needs_all and f.names is not null then
               array(select n.name
                       from unnest(f.names) with ordinality as n (name, nth)
                      where n.name not in (select s.name
                                             from outlast.signals s
                                            where s.target_id = f.id
                                              and s.name = any (f.names)
                                              and s.consumed_at is null
                                           offset 0)
                      order by n.nth)
               else f.names end as awaits
      from found f
     cross join clock k
     where not f.is_cancelled
),
-- The new status. A failed child wakes the workflow at once. Any awaited event does, unless it
-- needs all.
decided as materialized (
    select l.*,
           case when l.rounds is not null and l.is_bad then 'failure'
                when l.nearest = 0 then 'all' end as joined,
           case when l.status is not null then l.status
                when l.rounds is not null and (l.is_bad or l.nearest = 0 and not l.needs_all)
                then 'runnable'
                when l.needs_all and l.nearest > 0 then 'awaiting_children'
                when l.needs_all and (cardinality(l.awaits) > 0 or l.deadline > k.now)
                then 'awaiting_signal'
                when l.needs_all then 'runnable'
                when exists (select from outlast.signals s
                              where s.target_id = l.id
                                and s.name = any (l.names)
                                and s.consumed_at is null
                             offset 0) then 'runnable'
                when l.rounds is not null then 'awaiting_children'
                else 'awaiting_signal' end as comes_to
      from looked l
     cross join clock k
),
written as (
    update outlast.instances i
       set status = d.comes_to,
           revision = i.revision + 1,
           last_error = null,
           eligible_at = case when d.comes_to = 'executing' then i.eligible_at else k.now end,
           attempt = 0,
           crashes = 0,
           locked_by = case when d.comes_to = 'executing' then i.locked_by end,
           awaits = d.awaits,
           await_deadline = case when d.comes_to in ('awaiting_signal', 'awaiting_children')
                                  and (not d.needs_all or d.deadline > k.now) then d.deadline end,
           needs_all_revision = case when d.needs_all then i.revision + 1 end,
           cancel_answered = i.cancel_answered or d.answers and i.cancel_requested_at is not null,
           round = case when d.starts then i.round + 1 else i.round end,
           joining = case when d.rounds is not null then d.rounds
                          when d.starts or i.joining is not null then '{}'::integer[] end,
           joining_part = d.parts,
           joining_first = d.firsts,
           joining_last = d.lasts,
           joining_left = d.left_over,
           join_needs = case when d.rounds is null then i.join_needs end,
           join_fails_fast = d.rounds is not null or i.join_fails_fast,
           join_window = case when d.rounds is null then i.join_window else d.places end,
           join_rest = case when d.rounds is null then i.join_rest end,
           children_started = coalesce(d.least, i.children_started),
           children_pending = coalesce(d.nearest, i.children_pending),
           children_failed = case when d.rounds is null then i.children_failed else d.bad end,
           first_failure = case when d.rounds is null then i.first_failure end,
           joined = case when d.rounds is null then i.joined else d.joined end,
           children_dropped = case when d.starts and not d.reported then null else i.children_dropped end,
           correlation_guard = case when d.comes_to = any (i.correlation_scope) then i.correlation_guard end,
           updated_at = k.now
      from decided d
     cross join clock k
     where i.id = any (array[d.id])
    returning i.id, d.revision,
              case when i.status = 'awaiting_signal' and coalesce(cardinality(i.awaits), 0) = 0
                   then 'sleeping' else i.status end as status, case when i.status = 'runnable' then i.queue end as woken, k.now as at,
              case when i.status = 'executing' then i.latest_signal end as latest_signal
)
select w.id, w.revision, w.status, w.woken, w.at, null::timestamptz as cancel_requested_at, null::text as cancel_reason,
       w.latest_signal
  from written w
union all
select f.id, f.revision, null, null, null, f.cancel_requested_at, f.cancel_reason, null
  from found f
 where f.is_cancelled
