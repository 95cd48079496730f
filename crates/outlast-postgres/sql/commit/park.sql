-- Parks instances: those that wait for signals, and those that wait for the children they have started. The last
-- statement of a commit: until here the fence still tells our rows from lost ones.
--
-- $1 ids  $2 revisions  $3 whether for children  $4 step  $5 state  $6 timeout in µs
-- $7 awaited names as an array literal  $8 received signal ids as an array literal
-- $9 whether commit/report_dropped.sql has spoken
-- guard   the fence, and that the row executes. No index fits that second condition by itself, so that the
--         planner has nothing to choose by it
-- locks   own rows, held since commit/lock.sql
-- index   instances_pkey; signals_inbox for waits; instances_children for fan-outs   bound the batch
with
clock as materialized (
    select outlast.now() as now
),
given as materialized (
    select c.id, c.revision, c.fans_out, c.step, c.state, c.timeout_us, c.names::text[] as names,
           c.received::bigint[] as received, c.reported
      from unnest($1::bigint[], $2::bigint[], $3::boolean[], $4::text[], $5::text[], $6::bigint[], $7::text[],
                  $8::text[], $9::boolean[])
        as c (id, revision, fans_out, step, state, timeout_us, names, received, reported)
),
decided as materialized (
    select i.id, g.fans_out, g.step, g.state, g.timeout_us, g.names, g.reported, f.started,
           case when f.started > 0 then 'awaiting_children'
                when g.fans_out then 'runnable'
                -- A match that the step was not handed wakes it at once; one that it was does not (#11).
                when exists (select from outlast.signals s
                              where s.target_id = i.id
                                and s.name = any (g.names)
                                and s.consumed_at is null
                                and s.id not in (select unnest(g.received))
                             offset 0) then 'runnable'
                else 'awaiting_signal' end as status
      from given g
      join outlast.instances i on i.id = any (array[g.id])
                                 and i.revision = g.revision and i.status = 'executing'
     cross join lateral (
           select case when g.fans_out then
                      (select count(*) from outlast.instances n
                        where n.parent_id = i.id and n.parent_round = i.round + 1) end as started
           offset 0) f
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
       await_deadline = case when d.status = 'awaiting_signal' then k.now + d.timeout_us * interval '1 microsecond' end,
       round = case when d.fans_out then i.round + 1 else i.round end,
       children_pending = case when d.fans_out then d.started else i.children_pending end,
       children_dropped = case when d.fans_out and not d.reported then null else i.children_dropped end,
       correlation_guard = case when d.status = any (i.correlation_scope) then i.correlation_guard end,
       updated_at = k.now
  from decided d
 cross join clock k
 where i.id = any (array[d.id])
returning i.id, i.revision - 1 as revision, i.status, case when i.status = 'runnable' then i.queue end as woken
