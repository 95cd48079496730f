-- Returns an instance that is parked or set aside, with the columns that show whether it needs a
-- repair.
-- Parameters: 1 id.
-- Guard: the instance is parked, or set aside behind a key or a window.
-- Index: primary key of instances.
-- Bound: one row.
select id, status, queue, eligible_at, round, children_started, children_pending, children_failed, join_needs,
    join_fails_fast, join_rest, joined, joining, joining_left, blocked, held, partition_key, parent_id,
    parent_round,
    coalesce(awaits, '[]') <> '[]' as awaits_names,
    await_deadline is not null as has_deadline
from instances
where id = ?1
  and (status in ('awaiting_signal', 'awaiting_children') or (status = 'runnable' and blocked))
