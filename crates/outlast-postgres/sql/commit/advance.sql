-- Writes outcomes that go on to a step, retry, or finish.
--
-- $1 ids, ascending  $2 revisions  $3 the new status  $4 step  $5 state  $6 delay in µs  $7 result,
-- or error value  $8 error  $9 whether it answers a cancel
--    with a step     the row goes on to it; with a delay it goes through its queue
--    with a delay    and no step, the row retries its step after the delay
--    with neither    the row finishes
-- guard   the fence, and that the row executes. No index fits the second condition alone, so it
--         gives the planner no choice
-- locks   own rows in the given order, unless commit/lock.sql holds them already
-- index   instances_pkey
-- bound   the batch
--
-- Most steps need this statement only. It looks up each row once and answers only values that the
-- outcome does not have. A row that keeps its claim changes no indexed column, so the update stays
-- on its page (HOT).
--
-- No cancel is lost. A cancel request holds the row's lock. If it comes first, this statement
-- waits, reads the row again and sees it. If it comes later, it finds the new row. A row that
-- keeps its claim returns the cancel. A retry under a cancel runs at once. Any outcome but a retry
-- settles the cancel. A signal is not overlooked either: its delivery holds the same lock while it
-- notes the signal on the row.
with
clock as materialized (
    select outlast.now() as now
)
update outlast.instances i
   set step = coalesce(o.step, i.step),
       state = coalesce(o.state::json, i.state),
       status = o.status,
       revision = i.revision + 1,
       entered_revision = case when o.step is not null then i.revision + 1 else i.entered_revision end,
       result = o.result::json,
       last_error = case when o.step is null and o.delay_us is not null then coalesce(o.error, i.last_error)
                         else o.error end,
       eligible_at = case when o.delay_us is null then i.eligible_at
                          when o.step is null and not o.answers
                               and i.cancel_requested_at is not null and not i.cancel_answered then k.now
                          else k.now + o.delay_us * interval '1 microsecond' end,
       attempt = case when o.step is not null then 0
                      when o.delay_us is not null then i.attempt + 1
                      else i.attempt end,
       crashes = 0,
       locked_by = case when o.status = 'executing' then i.locked_by end,
       awaits = case when o.step is null and o.delay_us is not null then i.awaits end,
       cancel_answered = i.cancel_answered
                         or o.answers and i.cancel_requested_at is not null
                            and (o.step is not null or o.delay_us is null),
       correlation_guard = case when o.status = any (i.correlation_scope) then i.correlation_guard end,
       updated_at = k.now,
       finished_at = case when o.step is null and o.delay_us is null then k.now end
  from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[],
              $9::boolean[])
    as o (id, revision, status, step, state, delay_us, result, error, answers)
 cross join clock k
 where i.id = any (array[o.id]) and i.revision = o.revision and i.status = 'executing'
returning i.id, o.revision, k.now as at, case when o.delay_us is not null and i.eligible_at <= k.now then i.queue end as woken,
          case when o.status = 'executing' and not i.cancel_answered then i.cancel_requested_at end
              as cancel_requested_at,
          case when o.status = 'executing' and not i.cancel_answered then i.cancel_reason end as cancel_reason,
          case when o.status = 'executing' then i.latest_signal end as latest_signal
