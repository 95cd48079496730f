-- Returns every registered worker.
-- Bound: the number of workers.
select id, name, host, version, queues, machines, started_at, heartbeat_at, lease_expires_at
from workers
order by id
