-- commit/lock, PROTOCOL §3 #3: takes the instance at whatever revision it is.
select i.id
  from unnest($1::bigint[], $2::bigint[]) as c (id, revision)
  join outlast.instances i on i.id = c.id
 order by i.id
   for no key update of i
