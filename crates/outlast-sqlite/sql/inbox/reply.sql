-- Writes the reply to an update into its row, and consumes the update if it is not consumed yet.
-- The first reply stands.
-- Parameters: 1 signal, 2 instance, 3 now, 4 kind, 5 reply.
-- Guard: the caller has checked the fence; the signal belongs to the instance, is an update and
-- has no reply.
-- Index: primary key of signals.
-- Bound: one row.
update signals
set payload = null,
    consumed_at = coalesce(consumed_at, ?3),
    reply_kind = ?4,
    reply = ?5,
    replied_at = ?3
where id = ?1 and target_id = ?2 and wants_reply and reply_kind is null
