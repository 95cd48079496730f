-- Counts finished children of a workflow. Changes no indexed column: only joined.sql does, when
-- the join is decided.
-- Parameters: 1 parent, 2 children pending in each join set (JSON), 3 children pending in the join
--   set nearest to completion, 4 how many failed or were cancelled, 5 the first of the failed or
--   null, 6 now.
-- Guard: none; sets.sql has found the workflow waiting, and there is one writer.
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
