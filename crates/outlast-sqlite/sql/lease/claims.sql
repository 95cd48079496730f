-- Returns the claims of a worker, by id.
-- Parameters: 1 worker.
-- Index: instances_locked.
-- Bound: the claims of one worker.
select id, revision, cancel_requested_at, cancel_reason, cancel_answered
from instances
where status = 'executing' and locked_by = ?1
order by id
