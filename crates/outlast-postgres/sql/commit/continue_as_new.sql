-- Starts new runs of workflows, and removes the histories of the oldest runs. The timeout of a run
-- is counted anew, that of the instance goes on.
--
-- $1 ids  $2 revisions  $3 state  $4 whether it answers a cancel  $5 how many runs are kept
-- guard   the fence, and that the row executes. No index fits the second condition alone, so it
--         gives the planner no choice
-- locks   own rows, held since commit/lock.sql
-- index   instances_pkey, events_pkey
-- bound   the batch, and the removed histories: HISTORY_MAX events each, usually of one run
--
-- Sent after history/append.sql, whose events belong to the run that ends here.
with
clock as materialized (
    select outlast.now() as now
),
renewed as (
    update outlast.instances i
       set state = o.state::json,
           status = 'runnable',
           revision = i.revision + 1,
           entered_revision = i.revision + 1,
           last_error = null,
           eligible_at = k.now,
           attempt = 0,
           crashes = 0,
           locked_by = null,
           awaits = null,
           cancel_answered = i.cancel_answered or o.answers and i.cancel_requested_at is not null,
           run = i.run + 1,
           events = 0,
           run_timeout_at = k.now + i.run_timeout_us * interval '1 microsecond',
           correlation_guard = case when 'runnable' = any (i.correlation_scope) then i.correlation_guard end,
           updated_at = k.now
      from unnest($1::bigint[], $2::bigint[], $3::text[], $4::boolean[]) as o (id, revision, state, answers)
     cross join clock k
     where i.id = any (array[o.id]) and i.revision = o.revision and i.status = 'executing'
    returning i.id, o.revision, i.run, i.status, i.queue as woken, k.now as at
),
removed as (
    delete from outlast.events v
     using renewed r
     where v.instance_id = any (array[r.id]) and v.run <= r.run - $5::integer
)
select r.id, r.revision, r.status, r.woken, r.at
  from renewed r
