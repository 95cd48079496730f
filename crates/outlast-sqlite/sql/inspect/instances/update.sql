-- Returns an update of an instance with its reply, and whether the instance has finished.
-- Parameters: 1 instance, 2 id of the update.
-- Index: signals_dedup, primary key of instances.
-- Bound: one row.
select signals.id, signals.name, signals.reply_kind, signals.reply, signals.replied_at,
    instances.finished_at is not null as has_ended
from signals
join instances on instances.id = signals.target_id
where signals.target_id = ?1 and signals.dedup_key = ?2 and signals.wants_reply
