-- Counts the ended children of one parent and round. Writes no index: only the end that decides does.
-- Parameters: 1 parent, 2 round of the children, 3 how many ended, 4 how many of them badly, 5 the first of those or
--   null, 6 now.
-- Guard: the parent waits for children of that round (I6): a machine for those of its last, a workflow for those of
--   the rounds it names.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set children_pending = max(children_pending - ?3, 0),
    children_failed = children_failed + ?4,
    first_failure = coalesce(first_failure, ?5),
    updated_at = ?6
where id = ?1 and status = 'awaiting_children'
  and iif(joining is null, round = ?2, exists (select 1 from json_each(joining) where value = ?2))
returning queue, round, children_started, children_pending, children_failed, join_needs, join_fails_fast, join_rest
