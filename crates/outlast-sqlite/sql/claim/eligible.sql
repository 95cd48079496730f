-- Returns eligible rows of one priority after a position, with all columns a claim needs. The
-- range on eligible_at ends at now, so delayed rows are never read (I10).
-- Parameters: 1 queue, 2 priority, 3 eligible_at and 4 id of the position, 5 now, 6 limit.
-- Index: instances_pick.
-- Bound: the limit.
select id, eligible_at, machine, machine_version, partition_key, revision, step, state, entered_revision, trace,
    attempt, crashes, correlation_key, parent_id, parent_round, parent_position, round, awaits,
    children_dropped,
    joined, first_failure, cancel_requested_at, cancel_reason, cancel_answered, held, run, events,
    joining is not null
from instances
where status = 'runnable' and blocked = 0
  and queue = ?1 and priority = ?2
  and (eligible_at, id) > (?3, ?4)
  and eligible_at <= ?5
order by eligible_at, id
limit ?6
