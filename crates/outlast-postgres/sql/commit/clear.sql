-- Empties the inboxes of instances that end.
--
-- $1 ids  $2 revisions
-- guard   the fence   locks the signals   index signals_inbox   bound INBOX_MAX per instance
--
-- One with a dedup key stays as an empty tombstone, so that it cannot be sent again (PROTOCOL §3 #9).
with
left_over as materialized (
    select s.id, s.dedup_key
      from unnest($1::bigint[], $2::bigint[]) as c (id, revision)
      join outlast.instances i on i.id = c.id and i.revision = c.revision
      join outlast.signals s on s.target_id = i.id and s.consumed_at is null
),
buried as (
    update outlast.signals s
       set payload = null, consumed_at = outlast.now()
      from left_over l
     where s.id = l.id and l.dedup_key is not null
)
delete from outlast.signals s
 using left_over l
 where s.id = l.id and l.dedup_key is null
