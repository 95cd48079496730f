-- Returns the join sets of a waiting workflow, and whether it needs all and lacks more than
-- children.
-- Parameters: 1 parent, 2 now.
-- Index: primary key of instances.
-- Bound: one row.
select joining, joining_left,
    needs_all_revision is revision
        and (coalesce(json_array_length(awaits), 0) > 0 or coalesce(await_deadline > ?2, 0))
        as lacks_more
from instances
where id = ?1 and status = 'awaiting_children' and joining is not null
