-- Families: cancels as requests, policies of children, joins that are decided early, windows, and the durable
-- work of telling children what became of their parent.
--
-- SQLite cannot change a check where it is, so the rows of instances and operations move. What is stored gets what
-- it would have: the order of its siblings as its position, and the counts of its last fan-out.

create table instances_rebuilt (
    id                integer primary key autoincrement,

    -- what it is and where it stands
    fsm               text    not null,
    fsm_version       integer not null,
    step              text    not null,
    state             text    not null check (json_valid(state)),
    status            text    not null check (
                          status = 'runnable' or status = 'executing'
                          or status = 'awaiting_signal' or status = 'awaiting_children'
                          or status = 'done' or status = 'failed' or status = 'cancelled'),
    revision          integer not null default 0,
    result            text    check (result is null or json_valid(result)),
    last_error        text,

    -- when it runs
    queue             text    not null,
    priority          integer not null check (priority between -32768 and 32767),
    eligible_at       integer not null,
    attempt           integer not null default 0 check (attempt >= 0),
    crashes           integer not null default 0 check (crashes >= 0),
    partition_key     text,
    -- Out of the pick index, so that no claim walks over it: a claim met it while its partition key was in
    -- use, or it waits for a place in a window (held). Any change of status clears it.
    blocked           integer not null default 0 check (blocked in (0, 1)),
    locked_by         integer,

    -- what it waits for
    awaits            text    check (awaits is null or json_type(awaits) = 'array'),
    await_deadline    integer,

    -- whom it belongs to, and what becomes of it when that ends (null: it goes on)
    parent_id         integer,
    parent_round      integer,
    parent_position   integer,
    on_parent_close   text    check (on_parent_close = 'request_cancel' or on_parent_close = 'terminate'),
    -- Of a fan-out with a window: whether it still waits for a place there.
    held              integer check (held = 0 or held = 1),

    -- who belongs to it: how many children of the last fan-out still live, which were dropped
    round             integer not null default 0 check (round >= 0),
    children_pending  integer not null default 0 check (children_pending >= 0),
    children_dropped  text    not null default '[]' check (json_type(children_dropped) = 'array'),
    children_started  integer not null default 0 check (children_started >= 0),
    children_failed   integer not null default 0 check (children_failed >= 0),
    first_failure     integer,

    -- how the last fan-out joins: after so many successes (null: after all), what becomes of those that it was
    -- decided without (null: they go on), and why it was decided
    join_needs        integer check (join_needs > 0),
    join_fails_fast   integer not null default 0 check (join_fails_fast in (0, 1)),
    join_window       integer check (join_window > 0),
    join_rest         text    check (join_rest = 'request_cancel' or join_rest = 'terminate'),
    joined            text    check (joined = 'all' or joined = 'failure' or joined = 'quorum'
                          or joined = 'impossible' or joined = 'deadline'),

    -- a cancel request, and whether the machine has decided what to do about it
    cancel_requested_at integer,
    cancel_reason     text,
    cancel_answered   integer not null default 0 check (cancel_answered in (0, 1)),

    -- its business key: the guard equals the key until the key is released for good
    correlation_key   text,
    correlation_scope text    check (correlation_scope is null or json_type(correlation_scope) = 'array'),
    correlation_guard text,

    inserted_at       integer not null,
    updated_at        integer not null,
    finished_at       integer,

    -- the trace it belongs to, and the revision that brought it to its step (0 where it was inserted)
    trace             text,
    entered_revision  integer not null default 0,

    check ((status = 'executing') = (locked_by is not null)),
    check ((status = 'done' or status = 'failed' or status = 'cancelled')
        = (finished_at is not null)),
    check (await_deadline is null or status = 'awaiting_signal' or status = 'awaiting_children'),
    check (awaits is not null or status <> 'awaiting_signal'),
    check (result is null or status = 'done'),
    check (blocked = 0 or (status = 'runnable' and (partition_key is not null or held is 1))),
    check (held is not 1 or (status = 'runnable' and blocked = 1)),
    check ((parent_id is null) = (parent_round is null)),
    check ((parent_id is null) = (parent_position is null)),
    check (parent_id is not null or (on_parent_close is null and held is null)),
    check ((cancel_requested_at is null) = (cancel_reason is null)),
    check (cancel_answered = 0 or cancel_requested_at is not null),
    check ((correlation_key is null) = (correlation_scope is null)),
    check (correlation_guard is null or correlation_guard is correlation_key)
) strict;

insert into instances_rebuilt (
    id, fsm, fsm_version, step, state, status, revision, result, last_error, queue, priority,
    eligible_at, attempt, crashes, partition_key, blocked, locked_by, awaits, await_deadline,
    parent_id, parent_round, parent_position, round, children_pending, children_dropped,
    children_started, children_failed, first_failure, joined, correlation_key, correlation_scope,
    correlation_guard, inserted_at, updated_at, finished_at, trace, entered_revision)
select
    id, fsm, fsm_version, step, state, status, revision, result, last_error, queue, priority,
    eligible_at, attempt, crashes, partition_key, blocked, locked_by, awaits, await_deadline,
    parent_id, parent_round,
    iif(parent_id is null, null,
        row_number() over (partition by parent_id, parent_round order by id) - 1),
    round, children_pending, children_dropped,
    iif(round = 0, 0, (
        select count(*)
        from instances as child
        where child.parent_id = instances.id and child.parent_round = instances.round)),
    iif(round = 0, 0, (
        select count(*)
        from instances as child
        where child.parent_id = instances.id and child.parent_round = instances.round
          and (child.status = 'failed' or child.status = 'cancelled'))),
    iif(round = 0, null, (
        select child.id
        from instances as child
        where child.parent_id = instances.id and child.parent_round = instances.round
          and (child.status = 'failed' or child.status = 'cancelled')
        order by child.finished_at, child.id
        limit 1)),
    iif(round = 0 or status = 'awaiting_children', null, 'all'),
    correlation_key, correlation_scope,
    correlation_guard, inserted_at, updated_at, finished_at, trace, entered_revision
from instances
order by id;

-- Ids go on where they were: they are never used twice.
delete from sqlite_sequence
where name = 'instances_rebuilt';
insert into sqlite_sequence (name, seq)
select 'instances_rebuilt', seq
from sqlite_sequence
where name = 'instances';

drop table instances;
alter table instances_rebuilt rename to instances;

-- claim/next_priority, claim/eligible, claim/next_due: the order of a queue. Also the counts of
-- inspect/.
create index instances_pick on instances (queue, priority, eligible_at)
    where status = 'runnable' and blocked = 0;

-- lease/claims: what a worker holds.
create index instances_locked on instances (locked_by)
    where status = 'executing';

-- claim/key_busy: at most one executing per partition key (I8).
create unique index instances_partition on instances (partition_key)
    where status = 'executing' and partition_key is not null;

-- line/first_held, line/first_free: who is next behind a partition key. Who waits for a place in a window comes
-- into the line with the place.
create index instances_line
    on instances (partition_key, blocked, queue, fsm, fsm_version, priority, eligible_at)
    where status = 'runnable' and partition_key is not null and held is not 1;

-- inspect/queues/next_held_queue, inspect/queues/count_held: what is held behind partition keys, by queue.
create index instances_held on instances (queue, eligible_at)
    where blocked = 1 and held is not 1;

-- insert/holder, deliver/target_by_key: at most one holder per machine and key (I9).
create unique index instances_correlation on instances (fsm, correlation_guard)
    where correlation_guard is not null;

-- claim/children, cascade/children, repair/children: the children of a round, in the order of their ids.
create index instances_parent on instances (parent_id, parent_round)
    where parent_id is not null;

-- cascade/policed: whether anybody is to be told of an end.
create index instances_policed on instances (parent_id)
    where on_parent_close is not null and finished_at is null;

-- window/next: who gets the next place. window/is_used: whether anybody has one.
create index instances_window on instances (parent_id, parent_round, held)
    where held is not null and finished_at is null;

-- fire/due: deadlines by time.
create index instances_deadline on instances (await_deadline)
    where await_deadline is not null;

-- collect/due: ends by time.
create index instances_finished on instances (finished_at)
    where finished_at is not null;

create table operations_rebuilt (
    id            integer primary key autoincrement,
    verb          text    not null check (
                      verb in ('cancel', 'terminate', 'retry', 'pause', 'resume', 'delete')),
    instance_id   integer,
    queue         text,
    operator      text    not null,
    reason        text,
    -- The parent because of which it was done.
    cause_id      integer,
    status_before text,
    at            integer not null
) strict;

-- A cancel was what is now a terminate.
insert into operations_rebuilt (id, verb, instance_id, queue, operator, reason, status_before, at)
select id, iif(verb = 'cancel', 'terminate', verb), instance_id, queue, operator, reason, status_before, at
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

-- collect/remove_stray_operations: the oldest records that no stored instance keeps. What was done to an
-- instance goes with it; what is left are queues, and deletes.
create index operations_stray on operations (at)
    where instance_id is null or verb = 'delete';

-- inspect/operations/close_actions: what was done because of a parent.
create index operations_cause on operations (cause_id)
    where cause_id is not null;

-- Children that are still to be told what became of their parent: by their own policies, or all alike; with deep,
-- what descends from them too. Those of the rounds whose (parent_round, id) is below (at_round, before_id) are left.
create table cascades (
    id         integer primary key autoincrement,
    parent_id  integer not null,
    from_round integer not null,
    upto_round integer not null,
    action     text    not null check (action = 'policy' or action = 'cancel' or action = 'terminate'),
    deep       integer not null check (deep in (0, 1)),
    operator   text    not null,
    reason     text,
    at_round   integer not null,
    before_id  integer not null,
    created_at integer not null
) strict;

-- collect/due, operate/is_cascading: whether the children of an instance are still to be told.
create index cascades_parent on cascades (parent_id);
