-- The table of instances with checks that cost less; what they demand is the same. SQLite makes a table
-- of its own for a list of more than two words, anew at every use of a statement that changes a status:
-- comparisons one by one need none. And the indexes that end with the id no longer hold it twice.
--
-- SQLite cannot change a check where it is, so the rows move.

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
    -- Held behind its partition key: a claim met it while the key was in use and took it out of the
    -- pick index, so that no later claim walks over it. Internal; any change of status clears it.
    blocked           integer not null default 0 check (blocked in (0, 1)),
    locked_by         integer,

    -- what it waits for
    awaits            text    check (awaits is null or json_type(awaits) = 'array'),
    await_deadline    integer,

    -- whom it belongs to, and who belongs to it
    parent_id         integer,
    parent_round      integer,
    round             integer not null default 0 check (round >= 0),
    children_pending  integer not null default 0 check (children_pending >= 0),
    children_dropped  text    not null default '[]' check (json_type(children_dropped) = 'array'),

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
    check (await_deadline is null or status = 'awaiting_signal'),
    check (awaits is not null or status <> 'awaiting_signal'),
    check (result is null or status = 'done'),
    check (blocked = 0 or (status = 'runnable' and partition_key is not null)),
    check ((parent_id is null) = (parent_round is null)),
    check ((correlation_key is null) = (correlation_scope is null)),
    check (correlation_guard is null or correlation_guard is correlation_key)
) strict;

insert into instances_rebuilt (
    id, fsm, fsm_version, step, state, status, revision, result, last_error, queue, priority,
    eligible_at, attempt, crashes, partition_key, blocked, locked_by, awaits, await_deadline,
    parent_id, parent_round, round, children_pending, children_dropped, correlation_key,
    correlation_scope, correlation_guard, inserted_at, updated_at, finished_at, trace,
    entered_revision)
select
    id, fsm, fsm_version, step, state, status, revision, result, last_error, queue, priority,
    eligible_at, attempt, crashes, partition_key, blocked, locked_by, awaits, await_deadline,
    parent_id, parent_round, round, children_pending, children_dropped, correlation_key,
    correlation_scope, correlation_guard, inserted_at, updated_at, finished_at, trace,
    entered_revision
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

-- line/first_held, line/first_free: who is next behind a partition key.
create index instances_line
    on instances (partition_key, blocked, queue, fsm, fsm_version, priority, eligible_at)
    where status = 'runnable' and partition_key is not null;

-- inspect/queues/next_held_queue, inspect/queues/count_held: what is held, by queue.
create index instances_held on instances (queue, eligible_at)
    where blocked = 1;

-- insert/holder, deliver/target_by_key: at most one holder per machine and key (I9).
create unique index instances_correlation on instances (fsm, correlation_guard)
    where correlation_guard is not null;

-- claim/children, repair/children: the children of a round.
create index instances_parent on instances (parent_id, parent_round)
    where parent_id is not null;

-- fire/due: deadlines by time.
create index instances_deadline on instances (await_deadline)
    where await_deadline is not null;

-- collect/due: ends by time.
create index instances_finished on instances (finished_at)
    where finished_at is not null;
