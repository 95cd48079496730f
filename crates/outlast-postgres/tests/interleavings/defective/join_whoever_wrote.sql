-- commit/join, PROTOCOL §3 #3: counts an instance off its parent when it ended at the next revision, whoever ended it.
with
ended as materialized (
    select i.parent_id, i.parent_round, count(*)::integer as children
      from unnest($1::bigint[], $2::bigint[]) as c (id, revision)
      join outlast.instances i on i.id = c.id and i.revision = c.revision + 1
     where i.parent_id is not null
     group by i.parent_id, i.parent_round
)
update outlast.instances p
   set children_pending = p.children_pending - e.children,
       status = case when p.children_pending = e.children then 'runnable' else p.status end,
       eligible_at = case when p.children_pending = e.children then outlast.now() else p.eligible_at end,
       updated_at = outlast.now()
  from ended e
 where p.id = e.parent_id and p.round = e.parent_round and p.status = 'awaiting_children'
returning p.queue, p.status = 'runnable' as released
