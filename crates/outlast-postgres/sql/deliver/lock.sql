-- Locks the targets of signals, in the order of their ids, after the worker that may be handed some.
--
-- $1 target ids  $2 the worker to claim for, or null
-- guard   with a worker: it is there; nothing is locked otherwise
-- locks   the worker's row, shared, so that it is not reaped before its claims are there; own rows by id
-- index   instances_pkey, workers_pkey   bound BATCH_MAX
--
-- A statement of its own: what follows must see a park that was committed while this one waited, and
-- nobody may park or end while it looks (docs/protocol.md, defects 2 and 10). All is locked whether the worker's lease is alive or
-- not: it may be renewed before deliver/deliver.sql, which decides by what it finds then.
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
