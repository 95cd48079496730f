-- Returns a row that was just woken, with all columns a claim needs, if it can be claimed at once
-- without loading children.
-- Parameters: 1 id.
-- Guard: the instance is runnable, has no partition key (I8), has never fanned out, and its queue
--   is not paused.
-- Index: primary keys of instances and queues.
-- Bound: one row.
select queue, priority, id, eligible_at, machine, machine_version, revision, step, state, entered_revision, trace,
    attempt, crashes, correlation_key, parent_id, parent_round, parent_position, round, awaits,
    children_dropped,
    joined, first_failure, cancel_requested_at, cancel_reason, cancel_answered, held, run, events,
    joining is not null
from instances
where id = ?1 and status = 'runnable' and partition_key is null and round = 0
  and not exists (select 1 from queues where name = instances.queue)
