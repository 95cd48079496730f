-- Leaves cascades to all descendants of instances.
--
-- $1 action  $2 operator  $3 reason, and per instance:  $4 id  $5 its round
-- guard   the instances are locked, so none of them is fanning out
-- locks   none
-- bound   BATCH_MAX
insert into outlast.cascades
       (parent_id, from_round, upto_round, at_round, action, deep, operator, reason, created_at)
select p.id, 1, p.round, p.round, $1, true, $2, $3, outlast.now()
  from unnest($4::bigint[], $5::integer[]) with ordinality as p (id, round, place)
 order by p.place
