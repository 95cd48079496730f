-- Locks the instances of an operator's verb by id, and returns their current state.
--
-- $1 ids
-- locks   own rows by id
-- index   instances_pkey
-- bound   BATCH_MAX
select i.id, i.revision, i.round, i.held, i.on_parent_close, i.cancel_requested_at is not null as is_asked,
       case when i.status = 'awaiting_signal' and coalesce(cardinality(i.awaits), 0) = 0 then 'sleeping'
            else i.status end as status
  from outlast.instances i
 where i.id = any ($1)
 order by i.id
   for no key update
