-- Parks on a set of names; goes straight on when a match is in the inbox that the step was not handed
-- (PROTOCOL §3 #2 and #11). One writer: nothing can arrive between the look and the park.
-- Parameters: 1 id, 2 revision, 3 step, 4 state, 5 names (JSON), 6 received ids (JSON), 7 deadline or
--   null, 8 now.
-- Guard: the fence.
-- Index: primary key of instances, signals_target.
-- Bound: one row; reads the inbox of the names.
update instances
set status = iif(matched.yes, 'runnable', 'awaiting_signal'),
    revision = revision + 1,
    entered_revision = revision + 1,
    step = ?3,
    state = ?4,
    eligible_at = ?8,
    crashes = 0,
    locked_by = null,
    awaits = ?5,
    await_deadline = iif(matched.yes, null, ?7),
    last_error = null,
    correlation_guard = iif(
        matched.yes or instr(correlation_scope, '"awaiting_signal"') > 0, correlation_guard, null),
    updated_at = ?8
from (
    select exists (
        select 1
        from signals
        where consumed_at is null
          and target_id = ?1
          and name in (select value from json_each(?5))
          and id not in (select value from json_each(?6))
    ) as yes
) as matched
where id = ?1 and revision = ?2 and status = 'executing'
returning status, queue, eligible_at, partition_key
