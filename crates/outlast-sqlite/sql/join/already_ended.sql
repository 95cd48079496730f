-- Returns the finished and the deleted children among those that a workflow is about to wait for.
-- Parameters: 1 ids (JSON).
-- Index: primary key of instances.
-- Bound: CHILDREN_MAX.
select awaited.value as id,
    child.id is null as gone,
    child.status is 'failed' or child.status is 'cancelled' as bad
from json_each(?1) as awaited
left join instances as child on child.id = awaited.value
where child.id is null or child.finished_at is not null
