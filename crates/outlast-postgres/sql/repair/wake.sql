-- Wakes parked instances.
--
-- $1 ids  $2 why the children woke each, or null
-- guard   repair/find.sql has found them under the lock
-- locks   own rows, held since operate/lock.sql
-- index   instances_pkey
-- bound   BATCH_MAX
--
-- The counts of a workflow stay as they are: it looks at its children itself. The revision stays.
update outlast.instances i
   set status = 'runnable',
       eligible_at = outlast.now(),
       await_deadline = null,
       joined = coalesce(c.joined, i.joined),
       correlation_guard = case when 'runnable' = any (i.correlation_scope) then i.correlation_guard end,
       updated_at = outlast.now()
  from unnest($1::bigint[], $2::text[]) as c (id, joined)
 where i.id = any (array[c.id])
returning i.queue, true as released, false as cascades
