-- Returns one page of instances, by id, with the columns that the reconciler checks.
-- Parameters: 1 after this id, 2 limit.
-- Index: primary key of instances.
-- Bound: the limit.
select id, round, children_started, children_pending, children_failed, join_needs, join_fails_fast, join_rest,
    blocked, held, partition_key, queue, parent_id, parent_round, status = 'awaiting_children' as joins,
    joining, joining_left
from instances
where id > ?1
order by id
limit ?2
