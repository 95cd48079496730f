-- Returns claims to their queues unchanged.
--
-- $1 ids  $2 revisions  $3 pause in µs; zero keeps the row's place in the queue
-- guard   the fence
-- locks   own rows, held since commit/lock.sql
-- index   instances_pkey
-- bound   the batch
update outlast.instances i
   set status = 'runnable',
       revision = i.revision + 1,
       locked_by = null,
       eligible_at = case when c.pause_us > 0 then outlast.now() + c.pause_us * interval '1 microsecond'
                          else i.eligible_at end,
       correlation_guard = case when 'runnable' = any (i.correlation_scope) then i.correlation_guard end,
       updated_at = outlast.now()
  from unnest($1::bigint[], $2::bigint[], $3::bigint[]) as c (id, revision, pause_us)
 where i.id = any (array[c.id]) and i.revision = c.revision and i.status = 'executing'
returning i.id, i.revision, i.queue, i.eligible_at <= outlast.now() as eligible
