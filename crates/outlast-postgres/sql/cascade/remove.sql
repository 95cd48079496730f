-- Removes a cascade that has handled all children.
--
-- $1 cascade  $2 the round and $3 the id of the last child that was handled
-- guard   no child is left before that position
-- locks   the cascade, held since cascade/take.sql
-- index   cascades_pkey, instances_children
-- bound   one row
--
-- A page can be short although more children follow: cascade/lock.sql limits it before it waits
-- for locks, and children that are deleted in that time are missing from it. This statement looks
-- again, after those deletes. It looks for the next child like cascade/lock.sql, from the position
-- down: up to the position it would read every child before that.
delete from outlast.cascades k
 where k.id = $1
   and (select c.id
          from outlast.instances c
         where c.parent_id = k.parent_id and c.parent_round >= k.from_round
           and (c.parent_round, c.id) < ($2, $3)
         order by c.parent_round desc, c.id desc
         limit 1) is null
