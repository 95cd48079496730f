-- The children of an instance, of one round or of all, in the order of their ids.
--
-- $1 parent  $2 round, or null  $3 after this id  $4 how many
-- locks none   index instances_children   bound $4
select c.id, c.parent_round, c.parent_position, c.on_parent_close, c.held, c.fsm, c.fsm_version, c.run, c.status,
       c.state::text as state, c.result::text as result, c.last_error, c.finished_at
  from outlast.instances c
 where c.parent_id = $1 and ($2::integer is null or c.parent_round = $2) and c.id > $3
 order by c.id
 limit $4
