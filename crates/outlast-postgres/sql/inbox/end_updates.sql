-- Marks the unanswered updates of finished instances as ended, before the instances become live
-- again.
--
-- $1 ids
-- guard   the caller has found the instances finished, so the updates are tombstones
-- locks   the signals; own rows, held since operate/lock.sql
-- index   signals_dedup, signals_pkey
-- bound   the signals with a dedup key of BATCH_MAX instances
with
unanswered as materialized (
    select s.id
      from unnest($1::bigint[]) as c (id)
     cross join lateral (
           select s.id
             from outlast.signals s
            where s.target_id = c.id and s.dedup_key is not null
              and s.wants_reply and s.reply_kind is null
           offset 0) s
)
update outlast.signals s
   set reply_kind = 'ended'
  from unanswered u
 where s.id = any (array[u.id])
