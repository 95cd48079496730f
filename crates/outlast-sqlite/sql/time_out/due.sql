-- Returns live instances that have taken too long, earliest deadline first, and which timeout has
-- passed first. Of two at one moment, that of the instance.
-- Parameters: 1 now, 2 limit.
-- Index: instances_timeout.
-- Bound: the limit.
select id, status, round, run, events, partition_key, parent_id, parent_round, parent_position, held,
    coalesce(run_timeout_at < timeout_at, timeout_at is null) as is_of_run,
    iif(coalesce(run_timeout_at < timeout_at, timeout_at is null), run_timeout_us, timeout_us) as limit_us
from instances
where finished_at is null and coalesce(timeout_at, run_timeout_at) is not null
    and coalesce(min(timeout_at, run_timeout_at), timeout_at, run_timeout_at) <= ?1
order by coalesce(min(timeout_at, run_timeout_at), timeout_at, run_timeout_at), id
limit ?2
