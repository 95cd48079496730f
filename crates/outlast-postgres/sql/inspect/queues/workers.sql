-- Lists the registered workers.
--
-- $1 how many
select w.id, w.name, w.host, w.version, w.queues, w.machines::text as machines,
       w.started_at, w.heartbeat_at, w.lease_expires_at
  from outlast.workers w
 order by w.id
 limit $1
