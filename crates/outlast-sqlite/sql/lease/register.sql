-- Registers a worker.
-- Parameters: 1 name, 2 host, 3 version, 4 queues (JSON), 5 now, 6 end of the lease, 7 machines
--   (JSON).
-- Bound: one row.
insert into workers (name, host, version, queues, machines, started_at, heartbeat_at, lease_expires_at)
values (?1, ?2, ?3, ?4, ?7, ?5, ?5, ?6)
