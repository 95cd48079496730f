-- Lists the ids of one page, and whether each row joins or waits for a slot in a window.
--
-- $1 after this id  $2 how many
-- locks   none
-- index   instances_pkey
-- bound   $2
select i.id, i.status = 'awaiting_children' as joins, i.held is true as is_held
  from outlast.instances i
 where i.id > $1
 order by i.id
 limit $2
