-- Mends parents whose count of children does not fit, and releases those with none left.
--
-- $1 ids, locked by deliver/lock.sql
-- locks own rows, held   index instances_pkey, instances_children   bound the page
with
counted as materialized (
    select p.id,
           (select count(*) from outlast.instances c
             where c.parent_id = p.id and c.parent_round = p.round and c.finished_at is null)::integer as pending
      from outlast.instances p
     where p.id = any ($1) and p.status = 'awaiting_children'
)
update outlast.instances p
   set children_pending = c.pending,
       status = case when c.pending = 0 then 'runnable' else p.status end,
       eligible_at = case when c.pending = 0 then outlast.now() else p.eligible_at end,
       correlation_guard = case when c.pending > 0 or 'runnable' = any (p.correlation_scope)
                                then p.correlation_guard end,
       updated_at = outlast.now()
  from counted c
 where p.id = any (array[c.id]) and p.children_pending <> c.pending
returning p.id, p.queue, p.status = 'runnable' as released
