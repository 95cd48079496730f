-- What ended before a moment, earliest first; children of a parent that lives are spared (PROTOCOL §3 #6).
-- Parameters: 1 moment, 2 limit.
-- Index: instances_finished.
-- Bound: the limit, and the spared ones before it.
select child.id
from instances as child
where child.finished_at is not null and child.finished_at <= ?1
  and not exists (
      select 1
      from instances as parent
      where parent.id = child.parent_id and parent.finished_at is null)
order by child.finished_at, child.id
limit ?2
