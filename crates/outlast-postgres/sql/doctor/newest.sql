-- Returns the id before the newest instances: a walk over them starts after it.
--
-- $1 how many instances
-- locks   none
-- index   instances_pkey
-- bound   $1
select i.id
  from outlast.instances i
 order by i.id desc
offset $1
 limit 1
