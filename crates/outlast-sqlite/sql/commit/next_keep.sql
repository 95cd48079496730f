-- Next, with the claim kept (run-ahead): no indexed column changes.
-- Parameters: 1 id, 2 revision, 3 step, 4 state, 5 now.
-- Guard: the fence.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set revision = revision + 1,
    entered_revision = revision + 1,
    step = ?3,
    state = ?4,
    attempt = 0,
    crashes = 0,
    awaits = null,
    last_error = null,
    updated_at = ?5
where id = ?1 and revision = ?2 and status = 'executing'
