-- What people look at beside the instances: the machines of each worker, and what engines have run.
--
-- Nothing that runs depends on any of it.

-- The machines a worker runs, as it named them when it registered: name, version, queue and steps of each.
alter table outlast.workers add column machines json not null default '[]';

-- Steps that were run, by the minute. Engines add to the newest minute every few seconds, so there is room on each
-- page for the next version of a row; minutes older than a day go.
create table outlast.runs (
    minute      timestamptz not null,
    fsm         text        collate "C" not null,
    fsm_version integer     not null,
    step        text        collate "C" not null,
    outcome     text        collate "C" not null,
    -- Empty where no step follows.
    next_step   text        collate "C" not null,
    count       bigint      not null,
    micros      bigint      not null,
    -- run_stats/runs.sql, run_stats/forget_runs.sql, inspect/run_stats/runs.sql
    primary key (minute, fsm, fsm_version, step, outcome, next_step)
)
with (fillfactor = 50);

-- How long steps had waited when they started, by the minute. The bins are those of outlast-core.
create table outlast.delays (
    minute timestamptz not null,
    queue  text        collate "C" not null,
    bin    smallint    not null,
    count  bigint      not null,
    -- run_stats/delays.sql, run_stats/forget_delays.sql, inspect/run_stats/delays.sql
    primary key (minute, queue, bin)
)
with (fillfactor = 50);
