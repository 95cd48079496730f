-- Returns parked instances whose deadline has passed, earliest first, and whether each needs all
-- and lacks more than the deadline.
-- Parameters: 1 now, 2 limit.
-- Index: instances_deadline.
-- Bound: the limit.
select id, queue, status, round, children_pending, join_rest,
    needs_all_revision is revision
        and (status = 'awaiting_children' or coalesce(json_array_length(awaits), 0) > 0)
        as lacks_more
from instances
where await_deadline is not null and await_deadline <= ?1
order by await_deadline, id
limit ?2
