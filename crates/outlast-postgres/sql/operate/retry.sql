-- Restarts failed or cancelled instances.
--
-- A released key stays released (docs/protocol.md, defect 4). An earlier cancel request and
-- the error value are cleared. Timeouts are counted anew.
--
-- $1 ids  $2 revisions
-- guard   the fence, read under the lock
-- locks   own rows, held since operate/lock.sql
-- index   instances_pkey
-- bound   BATCH_MAX
update outlast.instances i
   set status = 'runnable',
       revision = i.revision + 1,
       eligible_at = outlast.now(),
       attempt = 0,
       crashes = 0,
       result = null,
       cancel_requested_at = null,
       cancel_reason = null,
       cancel_answered = false,
       timeout_at = outlast.now() + i.timeout_us * interval '1 microsecond',
       run_timeout_at = outlast.now() + i.run_timeout_us * interval '1 microsecond',
       correlation_guard = case when 'runnable' = any (i.correlation_scope) then i.correlation_guard end,
       updated_at = outlast.now(),
       finished_at = null
  from unnest($1::bigint[], $2::bigint[]) as c (id, revision)
 where i.id = any (array[c.id]) and i.revision = c.revision
returning i.queue
