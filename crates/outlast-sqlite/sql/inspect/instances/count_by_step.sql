-- Counts one slice of instances by machine, version, step and status. Slices follow the order of
-- the ids.
-- Parameters: 1 after this id, 2 limit, 3 the moment before which a deadline is overdue, 4 retries
--   that raise an alarm, 5 prefix of a blocked workflow's error, 6 prefix of the error of an
--   instance that commits without progress.
-- Index: primary key of instances.
-- Bound: the limit.
select machine, machine_version, step, status,
    count(*) as instances,
    count(*) filter (where status in ('awaiting_signal', 'sleeping') and await_deadline is null) as without_deadline,
    count(*) filter (where status in ('awaiting_signal', 'sleeping') and await_deadline < ?3) as overdue,
    count(*) filter (where status in ('runnable', 'executing') and attempt >= ?4) as retrying,
    count(*) filter (where status in ('runnable', 'executing')
        and (events > 0 and substr(last_error, 1, length(?5)) = ?5
            or substr(last_error, 1, length(?6)) = ?6)) as blocked,
    min(updated_at) as oldest_updated_at,
    max(id) as last
from (
    select id, machine, machine_version, step, await_deadline, attempt, events, last_error, updated_at,
        iif(status = 'awaiting_signal' and coalesce(awaits, '[]') = '[]', 'sleeping', status) as status
    from instances
    where id > ?1
    order by id
    limit ?2)
group by machine, machine_version, step, status
