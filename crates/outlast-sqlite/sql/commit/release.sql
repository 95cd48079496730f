-- Releases a claim without an outcome. Step, state and attempt stay as they are.
-- Parameters: 1 id, 2 revision, 3 eligible_at, 4 now.
-- Guard: the fence.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set status = 'runnable',
    revision = revision + 1,
    eligible_at = ?3,
    locked_by = null,
    updated_at = ?4
where id = ?1 and revision = ?2 and status = 'executing'
