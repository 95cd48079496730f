-- Parks instances that wait for signals, or for the children they have started.
--
-- It is the last statement of a commit that relies on the fence.
--
-- $1 ids  $2 revisions  $3 whether for children  $4 step  $5 state  $6 timeout in µs
-- $7 awaited names as an array literal  $8 received signal ids as an array literal
-- $9 whether commit/report_dropped.sql has run for it  $10 whether it answers a cancel
-- and for children: $11 how many must be done, or null  $12 whether one failure decides the join
-- $13 the window, or null  $14 the policy for the remaining children, or null
-- guard   the fence, and that the row executes. No index fits the second condition alone, so it
--         gives the planner no choice
-- locks   own rows, held since commit/lock.sql
-- index   instances_pkey; signals_inbox for waits; instances_children for fan-outs
-- bound   the batch
--
-- A row with an unanswered cancel does not wait: it becomes runnable. The cancel came before
-- commit/lock.sql, or it waits for that lock and finds the parked row. A join may be decided at
-- its start; cascade/close.sql then leaves the cascade.
with
clock as materialized (
    select outlast.now() as now
),
given as materialized (
    select c.id, c.revision, c.fans_out, c.step, c.state, c.timeout_us, c.names::text[] as names,
           c.received::bigint[] as received, c.reported, c.answers, c.needs, c.fails_fast, c.places, c.rest
      from unnest($1::bigint[], $2::bigint[], $3::boolean[], $4::text[], $5::text[], $6::bigint[], $7::text[],
                  $8::text[], $9::boolean[], $10::boolean[], $11::integer[], $12::boolean[], $13::integer[],
                  $14::text[])
        as c (id, revision, fans_out, step, state, timeout_us, names, received, reported, answers, needs,
              fails_fast, places, rest)
),
found as materialized (
    select i.id, g.fans_out, g.step, g.state, g.timeout_us, g.names, g.received, g.reported, g.answers, g.needs,
           g.fails_fast, g.places, g.rest, f.started::integer as started, f.is_cancelled,
           case when g.fans_out and not f.is_cancelled
                then outlast.joined(g.needs, g.fails_fast, f.started::integer, f.started::integer, 0) end as joined
      from given g
      join outlast.instances i on i.id = any (array[g.id])
                                 and i.revision = g.revision and i.status = 'executing'
     cross join lateral (
           select i.cancel_requested_at is not null and not i.cancel_answered and not g.answers as is_cancelled,
                  case when g.fans_out then
                      (select count(*) from outlast.instances n
                        where n.parent_id = i.id and n.parent_round = i.round + 1) end as started
           offset 0) f
),
decided as materialized (
    select f.*,
           case when f.is_cancelled or f.joined is not null then 'runnable'
                when f.fans_out then 'awaiting_children'
                -- A matching signal that the step did not receive wakes it at once. A received one
                -- does not (docs/protocol.md, defect 11).
                when exists (select from outlast.signals s
                              where s.target_id = f.id
                                and s.name = any (f.names)
                                and s.consumed_at is null
                                and s.id not in (select unnest(f.received))
                             offset 0) then 'runnable'
                else 'awaiting_signal' end as status
      from found f
)
update outlast.instances i
   set step = d.step,
       state = d.state::json,
       status = d.status,
       revision = i.revision + 1,
       entered_revision = i.revision + 1,
       last_error = null,
       eligible_at = k.now,
       attempt = case when d.fans_out then 0 else i.attempt end,
       crashes = 0,
       locked_by = null,
       awaits = d.names,
       -- The signals that a wait keeps do not wake it; repair/find.sql asks for later ones.
       latest_signal = case when cardinality(d.received) > 0
                            then (select max(r.id) from unnest(d.received) as r (id)) end,
       await_deadline = case when d.status <> 'runnable' then k.now + d.timeout_us * interval '1 microsecond' end,
       cancel_answered = i.cancel_answered or d.answers and i.cancel_requested_at is not null,
       round = case when d.fans_out then i.round + 1 else i.round end,
       join_needs = case when d.fans_out then d.needs else i.join_needs end,
       join_fails_fast = case when d.fans_out then d.fails_fast else i.join_fails_fast end,
       join_window = case when d.fans_out then d.places else i.join_window end,
       join_rest = case when d.fans_out then d.rest else i.join_rest end,
       children_started = case when d.fans_out then d.started else i.children_started end,
       children_pending = case when d.fans_out then d.started else i.children_pending end,
       children_failed = case when d.fans_out then 0 else i.children_failed end,
       first_failure = case when d.fans_out then null else i.first_failure end,
       joined = case when d.fans_out then d.joined else i.joined end,
       joining = case when d.fans_out then null else i.joining end,
       joining_left = case when d.fans_out then null else i.joining_left end,
       children_dropped = case when d.fans_out and (d.is_cancelled or not d.reported) then null
                               else i.children_dropped end,
       correlation_guard = case when d.status = any (i.correlation_scope) then i.correlation_guard end,
       updated_at = k.now
  from decided d
 cross join clock k
 where i.id = any (array[d.id])
returning i.id, i.revision - 1 as revision, i.status, case when i.status = 'runnable' then i.queue end as woken,
          k.now as at
