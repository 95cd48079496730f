-- Asks instances to end.
--
-- $1 ids  $2 revisions  $3 reason
-- guard the fence, read under the lock   locks own rows, held since operate/lock.sql
-- index instances_pkey   bound BATCH_MAX
--
-- One that waits is woken, one that is to start later starts now; of one that executes nothing else changes, and its
-- outcome meets the cancel: it is written after this, or was written before and is what the lock has found. The
-- revision stays.
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
