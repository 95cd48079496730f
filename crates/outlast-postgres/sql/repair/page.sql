-- Reads the ids of one page, and whether each instance is parked or set aside: only these can need
-- a repair.
--
-- $1 after this id  $2 how many
-- locks   none
-- index   instances_pkey
-- bound   $2
select i.id,
       i.status in ('awaiting_signal', 'awaiting_children') or i.status = 'runnable' and i.blocked as may_need
  from outlast.instances i
 where i.id > $1
 order by i.id
 limit $2
