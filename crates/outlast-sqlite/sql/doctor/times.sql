-- Times that the clock has not reached, and times that no caller may give. Among the newest instances, and of all workers.
-- Parameters: 1 now, 2 the moment from which on a time is ahead, 3 how many instances are looked at, 4 the first and 5 the
-- last moment that a caller may give.
-- Bound: the number of instances that are looked at, in the order of the primary key.
select count(*) as looked,
    count(*) filter (where written > ?2) as ahead,
    max(written) - ?1 as furthest,
    -- Runnable at once by the clock that wrote it.
    count(*) filter (where status = 'runnable' and eligible_at > ?2 and eligible_at <= written) as waiting,
    count(*) filter (where latest > ?5 or earliest < ?4) as strange,
    (select count(*) from workers where heartbeat_at > ?2) as workers
from (
    select status, eligible_at,
        max(inserted_at, updated_at, coalesce(finished_at, inserted_at)) as written,
        max(inserted_at, updated_at, eligible_at, coalesce(await_deadline, inserted_at)) as latest,
        min(inserted_at, updated_at, eligible_at, coalesce(await_deadline, inserted_at)) as earliest
    from instances
    order by id desc
    limit ?3)
