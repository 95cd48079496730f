-- Returns the workers whose lease has expired, by id.
-- Parameters: 1 now.
-- Index: primary key of workers.
-- Bound: the number of workers.
select id
from workers
where lease_expires_at <= ?1
order by id
