-- Advances a workflow that keeps its claim and starts no children. Changes no indexed column.
-- Parameters: 1 id, 2 revision, 3 events added, 4 now, 5 whether a cancel may be pending, 6 run
--   and 7 events before this commit, null when the caller does not know them, 8 whether signals may
--   have come since the claim.
-- Guard: the fence. The caller has not read the row, so three things stop the write: a pending
--   cancel, a signal since the claim, and a history at another position than expected.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set revision = revision + 1,
    attempt = 0,
    crashes = 0,
    awaits = null,
    joining = iif(joining is null, null, '[]'),
    joining_left = iif(joining is null, null, '[]'),
    events = events + ?3,
    last_error = null,
    updated_at = ?4
where id = ?1 and revision = ?2 and status = 'executing'
  and (?5 or cancel_requested_at is null or cancel_answered)
  and (?6 is null or (run = ?6 and events = ?7))
  and (?8 or latest_signal is null)
