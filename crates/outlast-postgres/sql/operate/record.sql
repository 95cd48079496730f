-- Records what an operator did to instances, or a parent to its children.
--
-- $1 verb  $2 operator  $3 reason  $4 ids  $5 the statuses they had  $6 because of which parent, or null
insert into outlast.operations (verb, instance_id, operator, reason, cause_id, status_before, at)
select $1, i.id, $2, $3, $6::bigint, i.status, outlast.now()
  from unnest($4::bigint[], $5::text[]) as i (id, status)
 order by i.id
