-- A workflow goes on with its claim and starts nobody: no indexed column changes.
-- Parameters: 1 id, 2 revision, 3 events added, 4 now, 5 whether a cancel may be pending, 6 run and 7 events before, if they
-- are thought to be known.
-- Guard: the fence. Without a look at the row nobody knows of a cancel: one that is pending stops the write. So does a history
-- that stands elsewhere than was thought.
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
