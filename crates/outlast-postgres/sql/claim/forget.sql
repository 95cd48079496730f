-- Locks the claims of a worker that it does not know of.
--
-- $1 worker  $2 the instance ids it knows it holds
-- locks own rows by id   index instances_locked   bound what one worker holds
select i.id, i.revision
  from outlast.instances i
 where i.status = 'executing' and i.locked_by = $1 and i.id <> all ($2)
 -- Not `i.id`: the primary key must not look like a way to find them in order.
 order by i.id + 0
   for no key update
