-- Returns claims of dead workers to their queues, at their old place.
--
-- $1 ids  $2 revisions  $3 crashes that count
-- guard   the fence
-- locks   own rows, held since reap/claims.sql
-- index   instances_pkey
-- bound   the batch
update outlast.instances i
   set status = 'runnable',
       revision = i.revision + 1,
       attempt = i.attempt + 1,
       crashes = i.crashes + 1,
       crashes_counted = c.counted,
       locked_by = null,
       correlation_guard = case when 'runnable' = any (i.correlation_scope) then i.correlation_guard end,
       updated_at = outlast.now()
  from unnest($1::bigint[], $2::bigint[], $3::integer[]) as c (id, revision, counted)
 where i.id = any (array[c.id]) and i.revision = c.revision
returning i.queue, i.eligible_at <= outlast.now() as eligible
