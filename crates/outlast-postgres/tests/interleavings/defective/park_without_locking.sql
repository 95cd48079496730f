-- commit/lock, PROTOCOL §3 #2: looks and does not lock, so that the park is decided on what was there before.
select i.id
  from unnest($1::bigint[], $2::bigint[]) as c (id, revision)
  join outlast.instances i on i.id = c.id and i.revision = c.revision
 order by i.id
