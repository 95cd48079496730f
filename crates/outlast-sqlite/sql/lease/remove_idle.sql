-- Removes a worker without claims.
-- Parameters: 1 worker.
-- Guard: the worker has no claims.
-- Index: primary key of workers, instances_locked.
-- Bound: one row.
delete from workers
where id = ?1
  and not exists (
      select 1
      from instances
      where status = 'executing' and locked_by = workers.id)
