-- commit/let_through: skips the next in line when somebody else holds it at this moment.
with
heads as materialized (
    select h.id
      from unnest($1::bigint[], $2::bigint[]) as c (id, revision)
      join outlast.instances i on i.id = c.id and i.revision = c.revision + 1
     cross join lateral (
           select n.id
             from outlast.instances n
            where n.status = 'runnable' and n.partition_key = i.partition_key and n.blocked
            order by n.priority, n.eligible_at, n.id
            limit 1) h
),
free as materialized (
    select n.id
      from outlast.instances n
     where n.id in (select h.id from heads h)
       for no key update skip locked
)
update outlast.instances i
   set blocked = false
  from free f
 where i.id = f.id
returning i.queue
