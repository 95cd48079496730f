-- Returns instances that finished before a moment, earliest first. Skips children of a live parent
-- (docs/protocol.md, defect 6) and parents with a cascade left to run.
-- Parameters: 1 moment, 2 limit.
-- Index: instances_finished, cascades_parent.
-- Bound: the limit, plus the skipped rows before it.
select child.id
from instances as child
where child.finished_at is not null and child.finished_at <= ?1
  and not exists (
      select 1
      from instances as parent
      where parent.id = child.parent_id and parent.finished_at is null)
  and not exists (
      select 1
      from cascades
      where cascades.parent_id = child.id)
order by child.finished_at, child.id
limit ?2
