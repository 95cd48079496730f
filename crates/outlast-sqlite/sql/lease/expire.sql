-- Expires a lease at once.
-- Parameters: 1 worker, 2 now.
-- Index: primary key of workers.
-- Bound: one row.
update workers
set lease_expires_at = min(lease_expires_at, ?2)
where id = ?1
