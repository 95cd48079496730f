-- A failed instance may have an error value. It is stored in `result` (docs/decisions/0048).
--
-- SQLite cannot change a check in place, so the rows of instances move to a new table.

create table instances_rebuilt (
    id                integer primary key autoincrement,

    -- The machine, its step and its status.
    machine           text    not null,
    machine_version   integer not null,
    step              text    not null,
    state             text    not null check (json_valid(state)),
    -- Comparisons one by one: SQLite builds a temporary table for a longer list.
    status            text    not null check (
                          status = 'runnable' or status = 'executing'
                          or status = 'awaiting_signal' or status = 'awaiting_children'
                          or status = 'done' or status = 'failed' or status = 'cancelled'),
    revision          integer not null default 0,
    -- The output of a done instance; the error value of a failed one, or null.
    result            text    check (result is null or json_valid(result)),
    last_error        text,

    -- When it runs.
    queue             text    not null,
    priority          integer not null check (priority between -32768 and 32767),
    eligible_at       integer not null,
    attempt           integer not null default 0 check (attempt >= 0),
    crashes           integer not null default 0 check (crashes >= 0),
    -- How many of the crashes in a row count towards crashes_max. Only `reap` reads and writes it.
    -- An outcome resets `crashes` only, and `reap` ignores this count while `crashes` is 0.
    crashes_counted   integer not null default 0 check (crashes_counted >= 0),
    partition_key     text,
    -- Outside the pick index, so that no claim reads the row: its partition key was in use when a
    -- claim found it, or it waits for a place in a window (held). Every change of status clears it.
    blocked           integer not null default 0 check (blocked in (0, 1)),
    locked_by         integer,

    -- What it waits for.
    awaits            text    check (awaits is null or json_type(awaits) = 'array'),
    await_deadline    integer,
    -- The revision at which a workflow parked until its whole group is complete. The value means
    -- nothing at any other revision, so no statement has to clear it.
    needs_all_revision integer,

    -- Its parent, and what a parent's end does to it (null: nothing).
    parent_id         integer,
    parent_round      integer,
    parent_position   integer,
    on_parent_close   text    check (
                          on_parent_close = 'request_cancel' or on_parent_close = 'terminate'),
    -- In a fan-out with a window: whether it still waits for a place.
    held              integer check (held = 0 or held = 1),

    -- Its children: how many of the last fan-out are live, and which were dropped.
    round             integer not null default 0 check (round >= 0),
    children_pending  integer not null default 0 check (children_pending >= 0),
    children_dropped  text    not null default '[]' check (json_type(children_dropped) = 'array'),
    children_started  integer not null default 0 check (children_started >= 0),
    children_failed   integer not null default 0 check (children_failed >= 0),
    first_failure     integer,

    -- The join of the last fan-out, or of a workflow's last wait for children: how many must
    -- succeed (null: all are awaited), what happens to the rest (null: nothing), and why it was
    -- decided.
    join_needs        integer check (join_needs > 0),
    join_fails_fast   integer not null default 0 check (join_fails_fast in (0, 1)),
    join_window       integer check (join_window > 0),
    join_rest         text    check (join_rest = 'request_cancel' or join_rest = 'terminate'),
    joined            text    check (joined = 'all' or joined = 'failure' or joined = 'quorum'
                          or joined = 'impossible' or joined = 'deadline'),

    -- Of a workflow: its run, the length of that run's history, and its join sets.
    --   joining       ranges of children: [join set (from 1), round, first position, last position]
    --   joining_left  how many children of each join set are still to finish
    -- Both are null for a machine, and for a workflow that has started no children.
    run               integer not null default 1,
    events            integer not null default 0,
    joining           text    check (joining is null or json_type(joining) = 'array'),
    joining_left      text    check (joining_left is null or json_type(joining_left) = 'array'),

    -- A cancel request, and whether the machine has answered it.
    cancel_requested_at integer,
    cancel_reason     text,
    cancel_answered   integer not null default 0 check (cancel_answered in (0, 1)),

    -- Its correlation key. The guard equals the key until the key is released for good.
    correlation_key   text,
    correlation_scope text    check (
                          correlation_scope is null or json_type(correlation_scope) = 'array'),
    correlation_guard text,

    inserted_at       integer not null,
    updated_at        integer not null,
    finished_at       integer,

    -- Its trace, and the revision at which it came to its step (0: it was inserted there).
    trace             text,
    entered_revision  integer not null default 0,

    check ((status = 'executing') = (locked_by is not null)),
    check ((status = 'done' or status = 'failed' or status = 'cancelled')
        = (finished_at is not null)),
    check (await_deadline is null or status = 'awaiting_signal' or status = 'awaiting_children'),
    check (status <> 'awaiting_signal' or awaits is not null or await_deadline is not null),
    check (result is null or status = 'done' or status = 'failed'),
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
    id, machine, machine_version, step, state, status, revision, result, last_error, queue,
    priority, eligible_at, attempt, crashes, crashes_counted, partition_key, blocked, locked_by,
    awaits, await_deadline, needs_all_revision, parent_id, parent_round, parent_position,
    on_parent_close, held, round, children_pending, children_dropped, children_started,
    children_failed, first_failure, join_needs, join_fails_fast, join_window, join_rest, joined,
    run, events, joining, joining_left, cancel_requested_at, cancel_reason, cancel_answered,
    correlation_key, correlation_scope, correlation_guard, inserted_at, updated_at, finished_at,
    trace, entered_revision)
select
    id, machine, machine_version, step, state, status, revision, result, last_error, queue,
    priority, eligible_at, attempt, crashes, crashes_counted, partition_key, blocked, locked_by,
    awaits, await_deadline, needs_all_revision, parent_id, parent_round, parent_position,
    on_parent_close, held, round, children_pending, children_dropped, children_started,
    children_failed, first_failure, join_needs, join_fails_fast, join_window, join_rest, joined,
    run, events, joining, joining_left, cancel_requested_at, cancel_reason, cancel_answered,
    correlation_key, correlation_scope, correlation_guard, inserted_at, updated_at, finished_at,
    trace, entered_revision
from instances
order by id;

-- Ids continue: no id is used twice.
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

-- lease/claims: the claims of a worker.
create index instances_locked on instances (locked_by)
    where status = 'executing';

-- claim/key_busy: at most one executing instance per partition key (I8).
create unique index instances_partition on instances (partition_key)
    where status = 'executing' and partition_key is not null;

-- line/first_held, line/first_free: the next instance behind a partition key. A child that waits
-- for a place in a window joins the line when it gets the place.
create index instances_line
    on instances (partition_key, blocked, queue, machine, machine_version, priority, eligible_at)
    where status = 'runnable' and partition_key is not null and held is not 1;

-- inspect/queues/next_held_queue, inspect/queues/count_held: instances behind partition keys, by queue.
create index instances_held on instances (queue, eligible_at)
    where blocked = 1 and held is not 1;

-- insert/holder, deliver/target_by_key: at most one holder per machine and key (I9).
create unique index instances_correlation on instances (machine, correlation_guard)
    where correlation_guard is not null;

-- deliver/known_by_key, inspect/instances/find: the latest instances that hold or held a key.
-- No outcome changes the indexed columns, so a commit does not write this index.
create index instances_keys on instances (machine, correlation_key)
    where correlation_key is not null;

-- claim/children, cascade/children, repair/children, repair/set: the children of a round,
-- in the order of their ids.
create index instances_parent on instances (parent_id, parent_round)
    where parent_id is not null;

-- cascade/policed: whether an end affects live children.
create index instances_policed on instances (parent_id)
    where on_parent_close is not null and finished_at is null;

-- window/next: the child that gets the next place. window/is_used: whether any child has one.
create index instances_window on instances (parent_id, parent_round, held)
    where held is not null and finished_at is null;

-- fire/due: deadlines by time.
create index instances_deadline on instances (await_deadline)
    where await_deadline is not null;

-- collect/due: ends by time.
create index instances_finished on instances (finished_at)
    where finished_at is not null;
