-- Which of these claims are still held.
--
-- $1 ids  $2 revisions
-- guard the fence   locks none   index instances_pkey   bound the claims given
--
-- The last statement of a load, whose statements each see their own moment: a claim that is held now was held
-- when its inbox and its children were read, so nobody has consumed or collected any of them before.
select i.id
  from unnest($1::bigint[], $2::bigint[]) as c (id, revision)
 cross join lateral (
       select i.id
         from outlast.instances i
        where i.id = any (array[c.id]) and i.revision = c.revision and i.status = 'executing'
       offset 0) i
