-- deliver/lock, PROTOCOL §3 #2: skips a target that somebody else holds instead of waiting for it.
select i.id
  from outlast.instances i
 where i.id = any ($1)
 order by i.id
   for no key update skip locked
