-- What people look at beside the instances: the machines of each worker, and what engines have run.
--
-- Nothing that runs depends on any of it.

-- The machines a worker runs, as it named them when it registered: name, version, queue and steps of each.
alter table workers add column machines text not null default '[]' check (json_type(machines) = 'array');

-- Steps that were run, by the minute; minutes older than a day go.
create table runs (
    minute      integer not null,
    fsm         text    not null,
    fsm_version integer not null,
    step        text    not null,
    outcome     text    not null,
    -- Empty where no step follows.
    next_step   text    not null,
    count       integer not null,
    micros      integer not null,
    -- run_stats/runs, run_stats/forget_runs, inspect/run_stats/runs
    primary key (minute, fsm, fsm_version, step, outcome, next_step)
) strict, without rowid;

-- How long steps had waited when they started, by the minute. The bins are those of outlast-core.
create table delays (
    minute integer not null,
    queue  text    not null,
    bin    integer not null,
    count  integer not null,
    -- run_stats/delays, run_stats/forget_delays, inspect/run_stats/delays
    primary key (minute, queue, bin)
) strict, without rowid;
