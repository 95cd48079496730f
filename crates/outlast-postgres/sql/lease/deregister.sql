-- Removes a worker without claims, and expires the lease of a worker with claims.
--
-- $1 worker
-- locks   the worker's row
-- index   workers_pkey, instances_locked
-- bound   one row
with
held as materialized (
    select exists (select from outlast.instances i where i.status = 'executing' and i.locked_by = $1) as any_claim
),
expired as (
    update outlast.workers w
       set lease_expires_at = least(w.lease_expires_at, outlast.now())
     where w.id = $1 and (select any_claim from held)
)
delete from outlast.workers w
 where w.id = $1 and not (select any_claim from held)
