-- commit/join, PROTOCOL §3 #5: one off per ended child, where `update … from` takes one row per parent.
update outlast.instances p
   set children_pending = p.children_pending - 1,
       status = case when p.children_pending = 1 then 'runnable' else p.status end,
       eligible_at = case when p.children_pending = 1 then outlast.now() else p.eligible_at end,
       updated_at = outlast.now()
  from unnest($1::bigint[], $2::bigint[]) as c (id, revision)
  join outlast.instances i on i.id = c.id and i.revision = c.revision + 1
 where p.id = i.parent_id and p.round = i.parent_round and p.status = 'awaiting_children'
returning p.queue, p.status = 'runnable' as released
