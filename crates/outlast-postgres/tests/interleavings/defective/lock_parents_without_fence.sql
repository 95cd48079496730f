-- commit/lock_parents, PROTOCOL §3 #3: for an instance at whatever revision it is.
select p.id
  from (select distinct i.parent_id
          from unnest($1::bigint[], $2::bigint[]) as c (id, revision)
          join outlast.instances i on i.id = c.id
         where i.parent_id is not null) as e
  join outlast.instances p on p.id = e.parent_id
 order by p.id
   for no key update of p
