-- Repairs of instances that nothing would wake are recorded (docs/decisions/0056).

alter table outlast.operations
    drop constraint verb_is_known;

-- Not valid: every stored verb is one of these already, so no row needs to be read.
alter table outlast.operations
    add constraint verb_is_known
        check (verb in ('cancel', 'terminate', 'retry', 'pause', 'resume', 'delete', 'repair')) not valid;

-- A wait that keeps signals now notes the last of them, and any later one is a lost wake-up. What
-- arrived before the park of a stored wait, its step had received.
update outlast.instances i
   set latest_signal = s.latest
  from (select n.target_id, max(n.id) as latest
          from outlast.signals n
          join outlast.instances p on p.id = n.target_id
         where n.consumed_at is null and p.status = 'awaiting_signal' and n.name = any (p.awaits)
           and n.inserted_at < p.eligible_at
         group by n.target_id) s
 where i.id = s.target_id and i.status = 'awaiting_signal';
