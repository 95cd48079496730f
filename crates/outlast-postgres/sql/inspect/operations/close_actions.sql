-- Lists what the end of an instance did to its children, in order.
--
-- $1 parent  $2 after this record  $3 how many
-- locks   none
-- index   operations_cause
-- bound   $3
select o.id, o.verb, o.instance_id, o.cause_id, o.queue, o.operator, o.reason, o.status_before, o.at
  from outlast.operations o
 where o.cause_id = $1 and o.id > $2
 order by o.id
 limit $3
