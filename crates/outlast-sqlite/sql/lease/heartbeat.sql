-- Extends a lease.
-- Parameters: 1 worker, 2 now, 3 end of the lease.
-- Index: primary key of workers.
-- Bound: one row.
update workers
set heartbeat_at = ?2,
    lease_expires_at = ?3
where id = ?1
