-- Advances an instance that keeps its claim (run-ahead). Changes no indexed column.
-- Parameters: 1 id, 2 revision, 3 step, 4 state, 5 now, 6 whether a cancel may be pending,
--   7 whether signals may have come since the claim.
-- Guard: the fence. The caller has not read the row, so a pending cancel and a signal since the
--   claim stop the write.
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
  and (?7 or latest_signal is null)
