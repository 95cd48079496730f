-- The kernel: instances, their signals, the workers that run them, and what operators did.
--
-- Same tables and columns as on PostgreSQL. Times are microseconds since 1970, JSON is text, lists are
-- JSON arrays. The constraints state what must hold of every row; the verbs keep the rest. Ids are
-- never used twice: a late commit or signal must not reach a stranger.

create table instances (
    id                integer primary key autoincrement,

    -- what it is and where it stands
    fsm               text    not null,
    fsm_version       integer not null,
    step              text    not null,
    state             text    not null check (json_valid(state)),
    status            text    not null check (status in (
                          'runnable', 'executing', 'awaiting_signal', 'awaiting_children',
                          'done', 'failed', 'cancelled')),
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

    check ((status = 'executing') = (locked_by is not null)),
    check ((status in ('done', 'failed', 'cancelled')) = (finished_at is not null)),
    check (await_deadline is null or status = 'awaiting_signal'),
    check (awaits is not null or status <> 'awaiting_signal'),
    check (result is null or status = 'done'),
    check (blocked = 0 or (status = 'runnable' and partition_key is not null)),
    check ((parent_id is null) = (parent_round is null)),
    check ((correlation_key is null) = (correlation_scope is null)),
    check (correlation_guard is null or correlation_guard is correlation_key)
) strict;

-- claim/next_priority, claim/eligible, claim/next_due: the order of a queue. Also the counts of
-- inspect/.
create index instances_pick on instances (queue, priority, eligible_at, id)
    where status = 'runnable' and blocked = 0;

-- lease/claims: what a worker holds.
create index instances_locked on instances (locked_by)
    where status = 'executing';

-- claim/key_busy: at most one executing per partition key (I8).
create unique index instances_partition on instances (partition_key)
    where status = 'executing' and partition_key is not null;

-- line/first_held, line/first_free: who is next behind a partition key.
create index instances_line
    on instances (partition_key, blocked, queue, fsm, fsm_version, priority, eligible_at, id)
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

create table signals (
    id          integer primary key autoincrement,
    target_id   integer not null,
    name        text    not null,
    payload     text    check (payload is null or json_valid(payload)),
    dedup_key   text,
    inserted_at integer not null,
    consumed_at integer,

    -- A consumed signal is gone, or a tombstone that only remembers its dedup key.
    check ((payload is null) = (consumed_at is not null)),
    check (consumed_at is null or dedup_key is not null)
) strict;

-- deliver/is_duplicate: a dedup key counts once per instance (I7), consumed or not. Also
-- inspect/instances/signals and collect/remove_signals: everything of one instance.
create unique index signals_dedup on signals (target_id, dedup_key);

-- claim/inbox, commit/wait: what an instance has not consumed.
create index signals_target on signals (target_id, name)
    where consumed_at is null;

create table workers (
    id               integer primary key autoincrement,
    name             text    not null,
    host             text    not null,
    version          text    not null,
    queues           text    not null check (json_type(queues) = 'array'),
    started_at       integer not null,
    heartbeat_at     integer not null,
    lease_expires_at integer not null
) strict;

-- A queue has a row while it is paused.
create table queues (
    name      text    primary key,
    paused_at integer not null
) strict, without rowid;

create table operations (
    id            integer primary key autoincrement,
    verb          text    not null check (verb in ('cancel', 'retry', 'pause', 'resume', 'delete')),
    instance_id   integer,
    queue         text,
    operator      text    not null,
    reason        text,
    status_before text,
    at            integer not null
) strict;

-- collect/remove_operations, inspect/operations/operations_of: what was done to an instance.
create index operations_instance on operations (instance_id)
    where instance_id is not null;

-- collect/remove_stray_operations: the oldest records that no stored instance keeps. What was done to an
-- instance goes with it; what is left are queues, and deletes.
create index operations_stray on operations (at)
where instance_id is null or verb = 'delete';
