-- Writes outcomes of workflows that go on or finish without waiting, and appends their events.
--
-- $1 ids, ascending  $2 revisions  $3 the new status  $4 whether it answers a cancel
-- $5 whether it finishes, and then: $6 result, error value or null  $7 error, or null
-- and the events: $8 how many, and as array literals  $9 kinds  $10 calls, or null  $11 names
-- $12 data  $13 times in µs, or null
-- guard   the fence, and that the row executes. No index fits the second condition alone, so it
--         gives the planner no choice
-- locks   own rows in the given order, unless commit/lock.sql holds them already
-- index   instances_pkey
-- bound   the batch, and EVENTS_MAX for each row
--
-- Most steps of workflows need this statement only. It looks up each row once and numbers the
-- events from that row. A row that keeps its claim changes no indexed column, so the update stays
-- on its page (HOT). As in commit/advance.sql, a row that keeps its claim returns a cancel that
-- came first, and the latest signal since the claim.
with
clock as materialized (
    select outlast.now() as now
),
written as (
    update outlast.instances i
       set status = o.status,
           revision = i.revision + 1,
           result = o.result::json,
           last_error = o.error,
           eligible_at = case when o.status = 'runnable' then k.now else i.eligible_at end,
           attempt = case when o.ends then i.attempt else 0 end,
           crashes = 0,
           locked_by = case when o.status = 'executing' then i.locked_by end,
           awaits = null,
           cancel_answered = i.cancel_answered or o.answers and i.cancel_requested_at is not null,
           -- The workflow waits for no child, so no finished child is counted.
           joining = case when o.ends then i.joining when i.joining is not null then '{}'::integer[] end,
           joining_left = case when o.ends then i.joining_left end,
           events = i.events + o.events,
           correlation_guard = case when o.status = any (i.correlation_scope) then i.correlation_guard end,
           updated_at = k.now,
           finished_at = case when o.ends then k.now end
      from unnest($1::bigint[], $2::bigint[], $3::text[], $4::boolean[], $5::boolean[], $6::text[], $7::text[],
                  $8::integer[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[])
        as o (id, revision, status, answers, ends, result, error, events, kinds, calls, names, data, at_us)
     cross join clock k
     where i.id = any (array[o.id]) and i.revision = o.revision and i.status = 'executing'
    returning i.id, o.revision, i.run, i.events - o.events as seq, k.now as at, o.kinds, o.calls, o.names, o.data, o.at_us,
              case when o.status = 'runnable' then i.queue end as woken,
              case when o.status = 'executing' and not i.cancel_answered then i.cancel_requested_at end
                  as cancel_requested_at,
              case when o.status = 'executing' and not i.cancel_answered then i.cancel_reason end as cancel_reason,
              case when o.status = 'executing' then i.latest_signal end as latest_signal
),
appended as (
    insert into outlast.events (instance_id, run, seq, at, kind, call, name, data)
    select w.id, w.run, w.seq + e.nth,
           coalesce(timestamptz 'epoch' + e.at_us * interval '1 microsecond', w.at), e.kind, e.call, e.name,
           e.data::json
      from written w
     cross join lateral unnest(w.kinds::text[], w.calls::integer[], w.names::text[], w.data::text[],
                               w.at_us::bigint[])
       with ordinality as e (kind, call, name, data, at_us, nth)
)
select w.id, w.revision, w.woken, w.at, w.cancel_requested_at, w.cancel_reason, w.latest_signal
  from written w
