-- How many of the children that a workflow is about to wait for have ended, how many of those badly, and how many are
-- not stored any more.
-- Parameters: 1 ids (JSON).
-- Index: primary key of instances.
-- Bound: CHILDREN_MAX.
select count(child.finished_at) as ended,
    count(*) filter (where child.status = 'failed' or child.status = 'cancelled') as bad,
    count(*) - count(child.id) as gone
from json_each(?1) as awaited
left join instances as child on child.id = awaited.value
