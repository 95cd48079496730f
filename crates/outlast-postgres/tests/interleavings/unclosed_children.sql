-- Children that a close policy should have ended, when no cascade is left. Each row is a
-- violation.
select format('I13: %s has ended, and child %s lives and was not told', p.id, c.id)
  from outlast.instances p
  join outlast.instances c on c.parent_id = p.id
 where p.finished_at is not null and c.finished_at is null
   and (c.on_parent_close = 'terminate' or c.on_parent_close = 'request_cancel' and c.cancel_requested_at is null)
   -- The retry of a child comes after the close policy ended it.
   and not exists (select from outlast.operations o where o.instance_id = c.id and o.verb = 'retry')
union all
select format('I13: the join of %s was decided, and child %s lives and was not told', p.id, c.id)
  from outlast.instances p
  join outlast.instances c on c.parent_id = p.id and c.parent_round = p.round
 where p.joined is not null and c.finished_at is null
   and (p.join_rest = 'terminate' or p.join_rest = 'request_cancel' and c.cancel_requested_at is null)
   and not exists (select from outlast.operations o where o.instance_id = c.id and o.verb = 'retry')
