-- Waits and joins whose deadline has come, earliest first.
-- Parameters: 1 now, 2 limit.
-- Index: instances_deadline.
-- Bound: the limit.
select id, queue, status, round, children_pending, join_rest
from instances
where await_deadline is not null and await_deadline <= ?1
order by await_deadline, id
limit ?2
