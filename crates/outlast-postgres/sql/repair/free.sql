-- Lets instances be claimed that a partition key or a window has held back.
--
-- $1 ids
-- guard   repair/find.sql has found them under the lock
-- locks   own rows, held since operate/lock.sql
-- index   instances_pkey
-- bound   BATCH_MAX
update outlast.instances i
   set held = case when i.held then false else i.held end,
       blocked = false,
       updated_at = case when i.held then outlast.now() else i.updated_at end
  from unnest($1::bigint[]) as c (id)
 where i.id = any (array[c.id])
returning i.queue, true as released, false as cascades
