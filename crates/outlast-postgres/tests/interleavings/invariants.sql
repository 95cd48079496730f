-- What must be true whenever nothing is under way (PROTOCOL §4); each row is a violation.
--
-- $1 signals that were handed to a step which waits again: they need not wake it
select format('I2: instance %s waits for signal %s, which is in its inbox', i.id, s.name)
  from outlast.instances i
  join outlast.signals s on s.target_id = i.id and s.name = any (i.awaits)
 where i.status = 'awaiting_signal' and s.consumed_at is null and s.id <> all ($1::bigint[])
union all
select format('I6: instance %s counts %s children pending, and %s of its round live', p.id, p.children_pending, c.live)
  from outlast.instances p
 cross join lateral (select count(*) as live
                       from outlast.instances c
                      where c.parent_id = p.id and c.parent_round = p.round and c.finished_at is null) c
 where p.status = 'awaiting_children' and p.children_pending <> c.live
union all
select format('I6: instance %s has left its round, and child %s of it lives', p.id, c.id)
  from outlast.instances p
  join outlast.instances c on c.parent_id = p.id and c.parent_round = p.round
 where p.status in ('runnable', 'executing', 'awaiting_signal') and c.finished_at is null
   -- An operator's retry of a child comes after its join.
   and not exists (select from outlast.operations o where o.instance_id = c.id and o.verb = 'retry')
union all
select format('I7: signal %s is in the inbox of instance %s, which is %s', s.id, s.target_id, coalesce(i.status, 'gone'))
  from outlast.signals s
  left join outlast.instances i on i.id = s.target_id
 where s.consumed_at is null and (i.id is null or i.finished_at is not null)
union all
select format('I8: %s instances execute under partition key %s', count(*), i.partition_key)
  from outlast.instances i
 where i.status = 'executing' and i.partition_key is not null
 group by i.partition_key
having count(*) > 1
union all
select format('I2: instance %s is blocked, and nobody before it will let it through', i.id)
  from outlast.instances i
 where i.blocked
   and not exists (select from outlast.instances r
                    where r.status = 'executing' and r.partition_key = i.partition_key)
   and not exists (select from outlast.instances l
                    where l.status = 'runnable' and l.partition_key = i.partition_key and not l.blocked
                      and l.queue = i.queue and l.fsm = i.fsm and l.fsm_version = i.fsm_version)
union all
select format('I2: instance %s executes for worker %s, which is gone', i.id, i.locked_by)
  from outlast.instances i
 where i.status = 'executing' and not exists (select from outlast.workers w where w.id = i.locked_by)
