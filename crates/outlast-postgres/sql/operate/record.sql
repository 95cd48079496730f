-- Records the actions of an operator on instances, or of a parent on its children.
--
-- $1 verb  $2 operator  $3 reason  $4 ids  $5 their previous statuses
-- $6 the parent that caused it, or null
insert into outlast.operations (verb, instance_id, operator, reason, cause_id, status_before, at)
select $1, i.id, $2, $3, $6::bigint, i.status, outlast.now()
  from unnest($4::bigint[], $5::text[]) as i (id, status)
 order by i.id
