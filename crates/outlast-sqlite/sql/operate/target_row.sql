-- Returns the status of an instance and its links to other rows.
-- Parameters: 1 id.
-- Index: primary key of instances.
-- Bound: one row.
select id, partition_key, parent_id, parent_round, parent_position, held, round, queue, eligible_at, blocked,
    iif(status = 'awaiting_signal' and coalesce(awaits, '[]') = '[]', 'sleeping', status) as status,
    on_parent_close, cancel_requested_at is not null as is_cancelled
from instances
where id = ?1
