-- Returns the ids of one page, and whether each instance is parked or set aside: only these can
-- need a repair.
-- Parameters: 1 after this id, 2 limit.
-- Index: primary key of instances.
-- Bound: the limit.
select id,
    status in ('awaiting_signal', 'awaiting_children') or (status = 'runnable' and blocked) as may_need
from instances
where id > ?1
order by id
limit ?2
