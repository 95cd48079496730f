-- A row that was taken, as its step sees it.
-- Parameters: 1 id.
-- Index: primary key of instances.
-- Bound: one row.
select id, revision, fsm, fsm_version, step, state, queue, priority, eligible_at, attempt, crashes,
    partition_key, correlation_key, parent_id, parent_round, round, awaits, children_dropped,
    entered_revision, trace
from instances
where id = ?1
