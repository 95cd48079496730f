-- Locks the targets of signals by id, after the worker that may claim some of them.
--
-- $1 target ids  $2 the worker to claim for, or null
-- guard   with a worker: its row exists; otherwise no target is locked
-- locks   the worker's row, shared, so that it is not reaped before its claims are written; own
--         rows by id
-- index   instances_pkey, workers_pkey
-- bound   BATCH_MAX
--
-- A separate statement: the next one must see a park that was committed while this one waited. No
-- target may park or finish while it looks (docs/protocol.md, defects 2 and 10). The rows are
-- locked even if the lease has expired. It may be renewed before deliver/deliver.sql, which checks
-- it again.
with
worker as materialized (
    select w.id
      from outlast.workers w
     where w.id = $2::bigint
       for key share
)
select i.id
  from outlast.instances i
 where i.id = any ($1) and ($2 is null or exists (select from worker))
 order by i.id
   for no key update of i
