-- Locks the targets of signals, in the order of their ids.
--
-- $1 target ids
-- locks   own rows by id   index instances_pkey   bound BATCH_MAX
--
-- A statement of its own: what follows must see a park that was committed while this one waited, and
-- nobody may park or end while it looks (PROTOCOL §3 #2, #10).
select i.id
  from outlast.instances i
 where i.id = any ($1)
 order by i.id
   for no key update
