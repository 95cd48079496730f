-- Returns an update of an instance with its reply, and whether the instance has finished.
--
-- $1 instance  $2 id of the update
-- locks   none
-- index   instances_pkey, signals_dedup
-- bound   one row
select s.id, s.name, s.reply_kind, s.reply::text as reply, s.replied_at, i.finished_at is not null as has_ended
  from outlast.instances i
 cross join lateral (
       select s.id, s.name, s.reply_kind, s.reply, s.replied_at
         from outlast.signals s
        where s.target_id = i.id and s.dedup_key = $2 and s.wants_reply
       offset 0) s
 where i.id = $1
