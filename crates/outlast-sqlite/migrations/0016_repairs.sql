-- Repairs of instances that nothing would wake are recorded (docs/decisions/0056).
--
-- SQLite cannot change a check where it is, so the rows of operations move.

create table operations_rebuilt (
    id            integer primary key autoincrement,
    verb          text    not null check (
                      verb in ('cancel', 'terminate', 'retry', 'pause', 'resume', 'delete', 'repair')),
    instance_id   integer,
    queue         text,
    operator      text    not null,
    reason        text,
    -- The parent because of which it was done.
    cause_id      integer,
    status_before text,
    at            integer not null
) strict;

insert into operations_rebuilt
    (id, verb, instance_id, queue, operator, reason, cause_id, status_before, at)
select id, verb, instance_id, queue, operator, reason, cause_id, status_before, at
from operations
order by id;

delete from sqlite_sequence
where name = 'operations_rebuilt';
insert into sqlite_sequence (name, seq)
select 'operations_rebuilt', seq
from sqlite_sequence
where name = 'operations';

drop table operations;
alter table operations_rebuilt rename to operations;

-- collect/remove_operations, inspect/operations/operations_of: what was done to an instance.
create index operations_instance on operations (instance_id)
    where instance_id is not null;

-- collect/remove_stray_operations: the oldest records that no stored instance keeps. Those of an
-- instance are removed with it, so these are the records of queues and of deletes.
create index operations_stray on operations (at)
    where instance_id is null or verb = 'delete';

-- inspect/operations/close_actions: what was done because of a parent.
create index operations_cause on operations (cause_id)
    where cause_id is not null;

-- A wait that keeps signals now notes the last of them, and any later one is a lost wake-up. What
-- arrived before the park of a stored wait, its step had received.
update instances
set latest_signal = (
    select max(n.id)
    from json_each(instances.awaits) as awaited
    join signals as n on n.target_id = instances.id and n.name = awaited.value
    where n.consumed_at is null and n.inserted_at < instances.eligible_at)
where status = 'awaiting_signal' and awaits is not null
    and exists (
        select 1
        from json_each(instances.awaits) as awaited
        join signals as n on n.target_id = instances.id and n.name = awaited.value
        where n.consumed_at is null and n.inserted_at < instances.eligible_at);
