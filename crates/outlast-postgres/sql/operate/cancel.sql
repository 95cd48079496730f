-- Requests the cancel of instances.
--
-- $1 ids  $2 revisions  $3 reason
-- guard   the fence, read under the lock
-- locks   own rows, held since operate/lock.sql
-- index   instances_pkey
-- bound   BATCH_MAX
--
-- A waiting instance is woken, and a delayed one starts now. An executing row changes in nothing
-- else. Its outcome is written after this statement and sees the cancel. Or it was written before,
-- and the lock has found the new row. The revision stays.
update outlast.instances i
   set cancel_requested_at = outlast.now(),
       cancel_reason = $3,
       cancel_answered = false,
       status = case when i.status in ('awaiting_signal', 'awaiting_children') then 'runnable' else i.status end,
       eligible_at = case when i.status in ('awaiting_signal', 'awaiting_children')
                            or i.status = 'runnable' and i.eligible_at > outlast.now() then outlast.now()
                          else i.eligible_at end,
       await_deadline = null,
       correlation_guard = case when i.status not in ('awaiting_signal', 'awaiting_children')
                                  or 'runnable' = any (i.correlation_scope) then i.correlation_guard end,
       updated_at = outlast.now()
  from unnest($1::bigint[], $2::bigint[]) as c (id, revision)
 where i.id = any (array[c.id]) and i.revision = c.revision
returning i.queue, i.status = 'runnable' and not i.blocked as eligible
