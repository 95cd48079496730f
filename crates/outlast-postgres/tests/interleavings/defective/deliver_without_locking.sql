-- deliver/lock, PROTOCOL §3 #2: looks and does not lock, so that a park under way is not seen.
select i.id
  from outlast.instances i
 where i.id = any ($1)
 order by i.id
