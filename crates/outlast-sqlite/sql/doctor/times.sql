-- Counts stored times that lie ahead of the clock, and times outside the range that callers may
-- give. Examines the newest instances and all workers.
-- Parameters: 1 now, 2 the moment from which a time counts as ahead, 3 how many instances to
--   examine, 4 first and 5 last moment that a caller may give.
-- Bound: the number of examined instances, in the order of the primary key.
select count(*) as looked,
    count(*) filter (where written > ?2) as ahead,
    max(written) - ?1 as furthest,
    -- Eligible at once by the clock of the writer, and not yet by ours.
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
