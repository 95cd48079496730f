-- Fails instances that have taken too long, in any status, and adds the last event to histories that
-- have begun.
--
-- $1 ids  $2 revisions  $3 errors  $4 data of the events
-- guard   the fence, read under the lock
-- locks   own rows, held since time_out/due.sql
-- index   instances_pkey
-- bound   BATCH_MAX
--
-- The new revision rejects the outcome of a running step. An instance that has never run has no
-- history, and gets none now: the first event of a run must be the run's start.
with
clock as materialized (
    select outlast.now() as now
),
failed as (
    update outlast.instances i
       set status = 'failed',
           revision = i.revision + 1,
           blocked = false,
           held = case when i.held then false else i.held end,
           crashes = 0,
           locked_by = null,
           last_error = c.error,
           awaits = null,
           await_deadline = null,
           events = case when i.events > 0 then i.events + 1 else 0 end,
           correlation_guard = case when 'failed' = any (i.correlation_scope) then i.correlation_guard end,
           updated_at = k.now,
           finished_at = k.now
      from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[]) as c (id, revision, error, data)
     cross join clock k
     where i.id = any (array[c.id]) and i.revision = c.revision
    returning i.id, i.run, i.events, c.data, k.now as at
)
insert into outlast.events (instance_id, run, seq, at, kind, call, name, data)
select f.id, f.run, f.events, f.at, 'timed_out', null, '', f.data::json
  from failed f
 where f.events > 0
