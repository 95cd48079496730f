-- Checks whether a worker's lease is valid.
-- Parameters: 1 worker, 2 now.
-- Index: primary key of workers.
-- Bound: one row.
select 1
from workers
where id = ?1 and lease_expires_at > ?2
