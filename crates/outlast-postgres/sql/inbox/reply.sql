-- Writes replies to updates into their rows, and consumes the updates that are not consumed yet.
-- The first reply to an update stands.
--
-- $1 ids  $2 revisions  $3 whether the outcome yields to a cancel
-- and the replies, as array literals: $4 signal ids  $5 kinds  $6 data
-- guard   the fence, and that no unanswered cancel exists to which the outcome yields; the signal
--         belongs to the instance, is an update and has no reply
-- locks   the signals; own rows, held since commit/lock.sql
-- index   instances_pkey, signals_pkey
-- bound   INBOX_MAX for each row of the batch
--
-- Sent before the outcomes are written, while the fence still matches. So a park finds no answered
-- update in its inbox.
with
answered as materialized (
    select s.id, r.kind, r.data
      from unnest($1::bigint[], $2::bigint[], $3::boolean[], $4::text[], $5::text[], $6::text[])
        as c (id, revision, yields, signals, kinds, data)
      join outlast.instances i on i.id = any (array[c.id])
                                 and i.revision = c.revision and i.status = 'executing'
                                 and (not c.yields or i.cancel_requested_at is null or i.cancel_answered)
     cross join lateral unnest(c.signals::bigint[], c.kinds::text[], c.data::text[])
        as r (signal_id, kind, data)
     cross join lateral (
           select s.id, s.target_id, s.wants_reply, s.reply_kind
             from outlast.signals s
            where s.id = r.signal_id
           offset 0) s
     where s.target_id = c.id and s.wants_reply and s.reply_kind is null
)
update outlast.signals s
   set payload = null,
       consumed_at = coalesce(s.consumed_at, outlast.now()),
       reply_kind = a.kind,
       reply = a.data::json,
       replied_at = outlast.now()
  from answered a
 where s.id = any (array[a.id])
