-- Returns the runs with a stored history, each with its first and last event. Skips over the index
-- from run to run, with two lookups for each.
-- Parameters: 1 instance.
-- Index: events_place.
-- Bound: RUNS_KEPT runs.
with recursive runs (run) as (
    select min(run)
    from events
    where instance_id = ?1
    union all
    select (
        select min(later.run)
        from events as later
        where later.instance_id = ?1 and later.run > runs.run)
    from runs
    where runs.run is not null)
select runs.run, last.seq as events, first.at as started_at, last.at as last_at, last.kind as last
from runs
join events as first
    on first.instance_id = ?1 and first.run = runs.run and first.seq = 1
join events as last
    on last.instance_id = ?1 and last.run = runs.run and last.seq = (
        select max(newest.seq)
        from events as newest
        where newest.instance_id = ?1 and newest.run = runs.run)
order by runs.run
