-- Counts claims of workers whose lease has expired.
-- Parameters: 1 now, 2 limit of claims.
-- Index: primary key of workers, instances_locked.
-- Bound: the limit.
select count(*) as claims,
    count(distinct worker) as workers,
    ?1 - min(lease_expires_at) as longest
from (
    select workers.id as worker, workers.lease_expires_at as lease_expires_at
    from workers
    join instances on instances.status = 'executing' and instances.locked_by = workers.id
    where workers.lease_expires_at <= ?1
    limit ?2)
