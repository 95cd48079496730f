-- Writes outcomes to their rows. The last statement of a commit: until here the fence still tells our rows
-- from lost ones.
--
-- $1 ids  $2 revisions  $3 kind: keep, next, retry, wait, fan_out, done, stop, cancel  $4 step  $5 state
-- $6 delay or timeout in µs  $7 awaited names as an array literal  $8 result  $9 error
-- $10 received signal ids as an array literal  $11 whether commit/report_dropped.sql has spoken
-- guard   the fence, and that the row executes. No index fits that second condition by itself, so that the
--         planner has nothing to choose by it
-- locks   own rows, held since commit/lock.sql
-- index   instances_pkey; signals_inbox for waits; instances_children for fan-outs   bound the batch
with
clock as materialized (
    select outlast.now() as now
),
given as materialized (
    select c.id, c.revision, c.kind, c.step, c.state, c.delay_us, c.names::text[] as names, c.result, c.error,
           c.received::bigint[] as received, c.reported
      from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[],
                  $8::text[], $9::text[], $10::text[], $11::boolean[])
        as c (id, revision, kind, step, state, delay_us, names, result, error, received, reported)
),
decided as materialized (
    select i.id, g.kind, g.step, g.state, g.delay_us, g.names, g.result, g.error, g.reported, f.started,
           case g.kind
               when 'keep'    then 'executing'
               when 'next'    then 'runnable'
               when 'retry'   then 'runnable'
               -- A match that the step was not handed wakes it at once; one that it was does not (#11).
               when 'wait'    then case when exists (select from outlast.signals s
                                                      where s.target_id = i.id
                                                        and s.name = any (g.names)
                                                        and s.consumed_at is null
                                                        and s.id not in (select unnest(g.received))
                                                     offset 0)
                                        then 'runnable' else 'awaiting_signal' end
               when 'fan_out' then case when f.started > 0 then 'awaiting_children' else 'runnable' end
               when 'done'    then 'done'
               when 'stop'    then 'failed'
               when 'cancel'  then 'cancelled'
           end as status
      from given g
      join outlast.instances i on i.id = any (array[g.id])
                                 and i.revision = g.revision and i.status = 'executing'
     cross join lateral (
           select case when g.kind = 'fan_out' then
                      (select count(*) from outlast.instances n
                        where n.parent_id = i.id and n.parent_round = i.round + 1) end as started
           offset 0) f
)
update outlast.instances i
   set step = coalesce(d.step, i.step),
       state = coalesce(d.state::json, i.state),
       status = d.status,
       revision = i.revision + 1,
       entered_revision = case when d.kind in ('keep', 'next', 'wait', 'fan_out') then i.revision + 1
                               else i.entered_revision end,
       result = coalesce(d.result::json, i.result),
       last_error = case when d.kind in ('stop', 'cancel') then d.error
                         when d.kind = 'retry' then coalesce(d.error, i.last_error) end,
       eligible_at = case when d.kind in ('next', 'wait', 'fan_out') then k.now
                          when d.kind = 'retry' then k.now + d.delay_us * interval '1 microsecond'
                          else i.eligible_at end,
       attempt = case when d.kind in ('keep', 'next', 'fan_out') then 0
                      when d.kind = 'retry' then i.attempt + 1
                      else i.attempt end,
       crashes = 0,
       locked_by = case when d.kind = 'keep' then i.locked_by end,
       awaits = case when d.kind = 'wait' then d.names
                     when d.kind = 'retry' then i.awaits end,
       await_deadline = case when d.status = 'awaiting_signal' then k.now + d.delay_us * interval '1 microsecond' end,
       round = case when d.kind = 'fan_out' then i.round + 1 else i.round end,
       children_pending = case when d.kind = 'fan_out' then d.started else i.children_pending end,
       children_dropped = case when d.kind = 'fan_out' and not d.reported then null else i.children_dropped end,
       correlation_guard = case when d.status = any (i.correlation_scope) then i.correlation_guard end,
       updated_at = k.now,
       finished_at = case when d.status in ('done', 'failed', 'cancelled') then k.now end
  from decided d
 cross join clock k
 where i.id = any (array[d.id])
returning i.id, i.revision, i.status, i.queue, i.eligible_at <= k.now as eligible
