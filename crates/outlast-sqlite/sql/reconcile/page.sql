-- One page of instances, by id, with what could be wrong with each.
-- Parameters: 1 after this id, 2 limit.
-- Index: primary key of instances.
-- Bound: the limit.
select id, round, children_pending, blocked, partition_key, queue,
    status = 'awaiting_children' as joins
from instances
where id > ?1
order by id
limit ?2
