-- Clears the inboxes of finished instances.
--
-- $1 ids
-- guard   the instances have finished, in this transaction or before it
-- locks   the signals
-- index   signals_inbox, instances_pkey, signals_pkey
-- bound   INBOX_MAX per instance
--
-- Sent after the statement that ended them. A delivery locks the instance first. So every signal
-- delivered before the end is visible here, and none is delivered after it. Most instances have no
-- signals left, which one look into the inbox shows. A signal with a dedup key stays as an empty
-- tombstone, so that it cannot be sent again (docs/protocol.md, defect 9).
with
inbox as materialized (
    select c.id as target_id, s.id, s.dedup_key
      from unnest($1::bigint[]) as c (id)
     cross join lateral (
           select s.id, s.dedup_key
             from outlast.signals s
            where s.target_id = c.id and s.consumed_at is null
           offset 0) s
),
left_over as materialized (
    select m.id, m.dedup_key
      from inbox m
     where exists (select from outlast.instances i
                    where i.id = any (array[m.target_id]) and i.status in ('done', 'failed', 'cancelled')
                   offset 0)
),
buried as (
    update outlast.signals s
       set payload = null, consumed_at = outlast.now()
      from left_over l
     where s.id = any (array[l.id]) and l.dedup_key is not null
)
delete from outlast.signals s
 using left_over l
 where s.id = any (array[l.id]) and l.dedup_key is null
