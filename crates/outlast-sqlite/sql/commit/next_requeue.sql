-- Advances an instance to its next step and releases the claim. Any worker may claim it.
-- Parameters: 1 id, 2 revision, 3 step, 4 state, 5 now.
-- Guard: the fence.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set status = 'runnable',
    revision = revision + 1,
    entered_revision = revision + 1,
    step = ?3,
    state = ?4,
    eligible_at = ?5,
    attempt = 0,
    crashes = 0,
    locked_by = null,
    awaits = null,
    last_error = null,
    updated_at = ?5
where id = ?1 and revision = ?2 and status = 'executing'
