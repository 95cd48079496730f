-- Lists operators' actions, newest first: on one instance, or on all.
--
-- $1 instance, or null  $2 how many
-- locks   none
-- index   operations_instance, operations_pkey
-- bound   $2
select o.id, o.verb, o.instance_id, o.cause_id, o.queue, o.operator, o.reason, o.status_before, o.at
  from outlast.operations o
 where $1::bigint is null or o.instance_id = $1
 order by o.id desc
 limit $2
