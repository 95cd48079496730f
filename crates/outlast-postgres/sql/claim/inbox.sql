-- Reads the unconsumed signals of claimed rows, oldest first.
--
-- $1 instance ids
-- locks   none
-- index   signals_inbox
-- bound   INBOX_MAX per instance
select s.target_id, s.id, s.name, s.payload::text as payload, s.dedup_key, s.wants_reply, s.inserted_at
  from unnest($1::bigint[]) as c (id)
 cross join lateral (
       select s.target_id, s.id, s.name, s.payload, s.dedup_key, s.wants_reply, s.inserted_at
         from outlast.signals s
        where s.target_id = c.id and s.consumed_at is null
       offset 0) s
 order by s.id
