-- Registers a worker with a lease from now.
--
-- $1 name  $2 host  $3 version  $4 queues  $5 lease in µs  $6 machines (JSON)
insert into outlast.workers (name, host, version, queues, machines, started_at, heartbeat_at, lease_expires_at)
select $1, $2, $3, $4, $6::text::json, k.now, k.now, k.now + $5::bigint * interval '1 microsecond'
  from (select outlast.now() as now) k
returning id
