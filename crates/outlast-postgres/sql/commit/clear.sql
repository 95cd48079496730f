-- Empties the inboxes of instances that end.
--
-- $1 ids  $2 revisions  $3 whether they must be claimed, as for a commit
-- guard   the fence   locks the signals   index instances_pkey, signals_inbox, signals_pkey   bound INBOX_MAX per instance
--
-- One with a dedup key stays as an empty tombstone, so that it cannot be sent again (PROTOCOL §3 #9).
with
left_over as materialized (
    select s.id, s.dedup_key
      from unnest($1::bigint[], $2::bigint[]) as c (id, revision)
      join outlast.instances i on i.id = any (array[c.id])
                                 and i.revision = c.revision and (i.status = 'executing' or not $3)
     cross join lateral (
           select s.id, s.dedup_key
             from outlast.signals s
            where s.target_id = c.id and s.consumed_at is null
           offset 0) s
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
