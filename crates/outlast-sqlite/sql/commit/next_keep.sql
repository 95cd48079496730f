-- Next, with the claim kept (run-ahead): no indexed column changes.
-- Parameters: 1 id, 2 revision, 3 step, 4 state, 5 now, 6 whether a cancel may be pending.
-- Guard: the fence. Without a look at the row nobody knows of a cancel: one that is pending stops the write.
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
  and (?6 or cancel_requested_at is null or cancel_answered)
