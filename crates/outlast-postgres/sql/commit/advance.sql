-- Writes outcomes that lead to another step or to the end, without waiting for anybody.
--
-- $1 ids, ascending  $2 revisions  $3 the status it comes to  $4 step  $5 state  $6 delay in µs  $7 result  $8 error
-- $9 whether it answers a cancel
--    with a step     it goes on to it, with a delay through its queue
--    with a delay    alone, it tries its own step again after it
--    with neither    it ends
-- guard   the fence, and that the row executes. No index fits that second condition by itself, so that the
--         planner has nothing to choose by it
-- locks   own rows in the order given, unless commit/lock.sql holds them already
-- index   instances_pkey   bound the batch
--
-- The statement of most steps: each row is looked up once, and answered by what its outcome does not tell. One
-- that keeps its claim changes no indexed column, so that it stays on its page (HOT).
--
-- A cancel that comes first is seen here: whoever asks for one holds the row, and a row that was waited for is looked at
-- anew. One that comes later finds what this has written. So no cancel falls between: of one that keeps its claim it
-- is answered, one that tries again does so at once, and any answer but another try settles it.
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
       result = coalesce(o.result::json, i.result),
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
          case when o.status = 'executing' and not i.cancel_answered then i.cancel_reason end as cancel_reason
