-- Counts finished children of one parent and round. Changes no indexed column: only joined.sql
-- does, when the join is decided.
-- Parameters: 1 parent, 2 round of the children, 3 how many finished, 4 how many of those failed
--   or were cancelled, 5 the first of the failed or null, 6 now.
-- Guard: the parent is a machine and waits for children of that round (I6). Workflows:
--   join_sets.sql.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set children_pending = children_pending - ?3,
    children_failed = children_failed + ?4,
    first_failure = coalesce(first_failure, ?5),
    updated_at = ?6
where id = ?1 and status = 'awaiting_children' and joining is null and round = ?2
returning queue, round, children_started, children_pending, children_failed, join_needs, join_fails_fast, join_rest
