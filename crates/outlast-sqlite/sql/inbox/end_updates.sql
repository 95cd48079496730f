-- Marks the unanswered updates of a finished instance as ended, before it becomes live again.
-- Parameters: 1 instance.
-- Guard: the caller has found the instance finished, so the updates are tombstones.
-- Index: signals_dedup.
-- Bound: the signals of one instance.
update signals
set reply_kind = 'ended'
where target_id = ?1 and wants_reply and reply_kind is null
