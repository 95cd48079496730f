-- Fails instances whose step has crashed its worker too often.
--
-- $1 ids  $2 revisions  $3 errors  $4 crashes that count
-- guard   the fence
-- locks   own rows, held since reap/claims.sql
-- index   instances_pkey
-- bound   the batch
update outlast.instances i
   set status = 'failed',
       revision = i.revision + 1,
       attempt = i.attempt + 1,
       crashes = i.crashes + 1,
       crashes_counted = c.counted,
       locked_by = null,
       last_error = c.error,
       awaits = null,
       correlation_guard = case when 'failed' = any (i.correlation_scope) then i.correlation_guard end,
       updated_at = outlast.now(),
       finished_at = outlast.now()
  from unnest($1::bigint[], $2::bigint[], $3::text[], $4::integer[]) as c (id, revision, error, counted)
 where i.id = any (array[c.id]) and i.revision = c.revision
