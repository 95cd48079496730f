-- Counts ended children of a workflow. Writes no index: only the end that decides does.
-- Parameters: 1 parent, 2 how many ends are to come of each part (JSON), 3 and of the nearest, 4 how many ended badly,
--   5 the first of those or null, 6 now.
-- Guard: none; parts.sql has found it waiting, and there is one writer.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set joining_left = ?2,
    children_pending = ?3,
    children_failed = children_failed + ?4,
    first_failure = coalesce(first_failure, ?5),
    updated_at = ?6
where id = ?1
returning queue, round, children_started, children_pending, children_failed, join_needs, join_fails_fast, join_rest
