-- Workers whose lease has run out, by id.
-- Parameters: 1 now.
-- Index: primary key of workers.
-- Bound: the workers there are.
select id
from workers
where lease_expires_at <= ?1
order by id
