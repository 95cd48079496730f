-- Counts live instances whose whole timeout passed before a moment, and the longest delay among
-- them.
-- Parameters: 1 now, 2 the moment, 3 limit.
-- Index: instances_timeout.
-- Bound: the limit.
select count(*) as instances,
    ?1 - min(moment) as longest
from (
    select coalesce(min(timeout_at, run_timeout_at), timeout_at, run_timeout_at) as moment
    from instances
    where finished_at is null and coalesce(timeout_at, run_timeout_at) is not null
        and coalesce(min(timeout_at, run_timeout_at), timeout_at, run_timeout_at) < ?2
    order by coalesce(min(timeout_at, run_timeout_at), timeout_at, run_timeout_at)
    limit ?3)
