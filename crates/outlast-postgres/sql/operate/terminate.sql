-- Ends instances as cancelled, in any status.
--
-- $1 ids  $2 revisions  $3 error
-- guard   the fence, read under the lock
-- locks   own rows, held since operate/lock.sql
-- index   instances_pkey
-- bound   BATCH_MAX
update outlast.instances i
   set status = 'cancelled',
       revision = i.revision + 1,
       blocked = false,
       held = case when i.held then false else i.held end,
       crashes = 0,
       locked_by = null,
       last_error = $3,
       awaits = null,
       await_deadline = null,
       correlation_guard = case when 'cancelled' = any (i.correlation_scope) then i.correlation_guard end,
       updated_at = outlast.now(),
       finished_at = outlast.now()
  from unnest($1::bigint[], $2::bigint[]) as c (id, revision)
 where i.id = any (array[c.id]) and i.revision = c.revision
