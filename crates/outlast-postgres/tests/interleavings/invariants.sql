-- The invariants that hold whenever no verb runs (docs/protocol.md). Each row is a violation.
--
-- $1 signals that a step received before it waited again. They need not wake it
select format('I2: instance %s waits for signal %s, which is in its inbox', i.id, s.name)
  from outlast.instances i
  join outlast.signals s on s.target_id = i.id and s.name = any (i.awaits)
 where i.status in ('awaiting_signal', 'awaiting_children') and s.consumed_at is null and s.id <> all ($1::bigint[])
union all
select format('I6: instance %s counts %s children pending, and %s of its round live', p.id, p.children_pending, c.live)
  from outlast.instances p
 cross join lateral (select count(*) as live
                       from outlast.instances c
                      where c.parent_id = p.id and c.parent_round = p.round and c.finished_at is null) c
 where p.status = 'awaiting_children' and p.joining is null and p.children_pending <> c.live
union all
-- Workflows here wait for all children of some ranges, or for none of them.
select format('I2: workflow %s waits for %s ends, and %s children of part %s live', p.id, l.ends, c.live, l.part)
  from outlast.instances p
 cross join lateral unnest(p.joining_left) with ordinality as l (ends, part)
 cross join lateral (select count(*) filter (where c.finished_at is null) as live,
                            count(*) filter (where c.status in ('failed', 'cancelled')) as failed
                       from outlast.spans(p.joining, p.joining_part, p.joining_first, p.joining_last) as s
                       join outlast.instances c on c.parent_id = p.id and c.parent_round = s.round
                                                  and c.parent_position between s.first and s.last
                      where s.part = l.part) c
 where p.status = 'awaiting_children' and p.joining is not null and (l.ends <> c.live or c.failed > 0)
union all
select format('I6: workflow %s has %s left of the part that is nearest, and of its parts %s', p.id, p.children_pending,
              p.joining_left)
  from outlast.instances p
 where p.status = 'awaiting_children' and p.joining is not null
   and p.children_pending is distinct from (select min(l.ends) from unnest(p.joining_left) as l (ends))
union all
select format('I6: workflow %s was woken by all ends, and of each part a child lives', p.id)
  from outlast.instances p
 where p.status in ('runnable', 'executing') and p.joined = 'all' and cardinality(p.joining) > 0
   and not exists (select from unnest(p.joining_left) with ordinality as l (ends, part)
                    where not exists (select
                                        from outlast.spans(p.joining, p.joining_part, p.joining_first,
                                                           p.joining_last) as s
                                        join outlast.instances c on c.parent_id = p.id and c.parent_round = s.round
                                                                   and c.parent_position between s.first and s.last
                                       where s.part = l.part and c.finished_at is null))
union all
select format('I2: workflow %s lacks nothing of all that it needs, and is %s', p.id, p.status)
  from outlast.instances p
 where p.needs_all_revision = p.revision and p.status = 'awaiting_signal'
   and coalesce(cardinality(p.awaits), 0) = 0 and p.await_deadline is null
union all
select format('I2: workflow %s waits for signals, and of the children that it needs %s live', p.id, c.live)
  from outlast.instances p
 cross join lateral (select count(*) as live
                       from outlast.spans(p.joining, p.joining_part, p.joining_first, p.joining_last) as s
                       join outlast.instances c on c.parent_id = p.id and c.parent_round = s.round
                                                  and c.parent_position between s.first and s.last
                      where c.finished_at is null) c
 where p.needs_all_revision = p.revision and p.status = 'awaiting_signal' and c.live > 0
union all
-- Neither a failure nor a cancel woke it, so all that it needs must have come.
select format('I6: workflow %s needs all and was woken: joined %s, lacks %s', p.id, p.joined, p.awaits)
  from outlast.instances p
 where p.needs_all_revision = p.revision and p.status = 'runnable'
   and p.joined is distinct from 'failure' and p.cancel_requested_at is null
   and (cardinality(p.awaits) > 0 or p.joined is distinct from 'all' or p.await_deadline is not null)
union all
select format('I3: workflow %s has %s events in run %s, and %s are there', i.id, i.events, i.run, v.events)
  from outlast.instances i
 cross join lateral (select count(*) as events, coalesce(max(v.seq), 0) as last
                       from outlast.events v
                      where v.instance_id = i.id and v.run = i.run) v
 where i.events <> v.events or i.events <> v.last
union all
select format('I3: event %s of run %s is there, and instance %s is not', v.seq, v.run, v.instance_id)
  from outlast.events v
 where not exists (select from outlast.instances i where i.id = v.instance_id)
union all
-- The timeout of an instance is the last event of its history, if it has one.
select format('I3: instance %s is %s with %L, and %s of its %s events are timeouts, the last at %s',
              i.id, i.status, i.last_error, v.timeouts, i.events, v.last)
  from outlast.instances i
 cross join lateral (select count(*) as timeouts, max(v.seq) as last
                       from outlast.events v
                      where v.instance_id = i.id and v.run = i.run and v.kind = 'timed_out') v
 where (v.timeouts = 1) <> (i.status = 'failed' and i.last_error like 'timed out%' and i.events > 0)
    or v.timeouts > 1 or v.last <> i.events
union all
select format('I6: instance %s has left its round, and child %s of it lives', p.id, c.id)
  from outlast.instances p
  join outlast.instances c on c.parent_id = p.id and c.parent_round = p.round
 where p.status in ('runnable', 'executing', 'awaiting_signal') and p.joining is null and c.finished_at is null
   -- A failure, a quorum, its deadline or a cancel may have woken it earlier.
   and (p.joined = 'all' or p.joined is null and p.cancel_requested_at is null)
   -- The retry of a child comes after its join.
   and not exists (select from outlast.operations o where o.instance_id = c.id and o.verb = 'retry')
union all
select format('I7: signal %s is in the inbox of instance %s, which is %s', s.id, s.target_id, coalesce(i.status, 'gone'))
  from outlast.signals s
  left join outlast.instances i on i.id = s.target_id
 where s.consumed_at is null and (i.id is null or i.finished_at is not null)
union all
select format('I7: update %s is answered as %s, and is in the inbox of %s', s.id, s.reply_kind, s.target_id)
  from outlast.signals s
 where s.consumed_at is null and s.reply_kind is not null
union all
select format('I7: signal %s wants no reply, and has one', s.id)
  from outlast.signals s
 where s.reply_kind is not null and not s.wants_reply
union all
select format('I8: %s instances execute under partition key %s', count(*), i.partition_key)
  from outlast.instances i
 where i.status = 'executing' and i.partition_key is not null
 group by i.partition_key
having count(*) > 1
union all
select format('I2: instance %s is blocked, and nobody before it will let it through', i.id)
  from outlast.instances i
 where i.blocked and i.held is not true
   and not exists (select from outlast.instances r
                    where r.status = 'executing' and r.partition_key = i.partition_key)
   and not exists (select from outlast.instances l
                    where l.status = 'runnable' and l.partition_key = i.partition_key and not l.blocked
                      and l.queue = i.queue and l.machine = i.machine and l.machine_version = i.machine_version)
union all
select format('I2: instance %s waits for a place in a window, and nobody of its round has one', i.id)
  from outlast.instances i
 where i.held
   and not exists (select from outlast.instances n
                    where n.parent_id = i.parent_id and n.parent_round = i.parent_round and not n.held
                      and n.finished_at is null)
union all
select format('I13: %s children of instance %s run in a window of %s', count(*), p.id, p.join_window)
  from outlast.instances p
  join outlast.instances c on c.parent_id = p.id and c.parent_round = p.round and not c.held and c.finished_at is null
 group by p.id
having count(*) > p.join_window
union all
select format('I13: instance %s is %s, and its cancel waits for an answer', i.id, i.status)
  from outlast.instances i
 where i.status in ('awaiting_signal', 'awaiting_children')
   and i.cancel_requested_at is not null and not i.cancel_answered
union all
select format('I6: instance %s counts %s children failed, and %s of its round have', p.id, p.children_failed, c.failed)
  from outlast.instances p
 cross join lateral (select count(*) as failed
                       from outlast.instances c
                      where c.parent_id = p.id and c.parent_round = p.round and c.status in ('failed', 'cancelled')) c
 where p.status = 'awaiting_children' and p.joining is null and p.children_failed <> c.failed
union all
select format('I2: instance %s executes for worker %s, which is gone', i.id, i.locked_by)
  from outlast.instances i
 where i.status = 'executing' and not exists (select from outlast.workers w where w.id = i.locked_by)
