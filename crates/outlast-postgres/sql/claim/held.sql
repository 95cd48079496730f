-- Returns the claims that are still held.
--
-- $1 ids  $2 revisions
-- guard   the fence
-- locks   none
-- index   instances_pkey
-- bound   the claims given
--
-- The last statement of a load. Each statement of the load has its own snapshot. A claim that is
-- held now was held when its inbox and children were read. So no other transaction had consumed or
-- collected them.
select i.id
  from unnest($1::bigint[], $2::bigint[]) as c (id, revision)
 cross join lateral (
       select i.id
         from outlast.instances i
        where i.id = any (array[c.id]) and i.revision = c.revision and i.status = 'executing'
       offset 0) i
