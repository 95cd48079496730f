-- Returns when the next live instance times out.
-- Index: instances_timeout.
-- Bound: one row.
select coalesce(min(timeout_at, run_timeout_at), timeout_at, run_timeout_at)
from instances
where finished_at is null and coalesce(timeout_at, run_timeout_at) is not null
order by coalesce(min(timeout_at, run_timeout_at), timeout_at, run_timeout_at)
limit 1
