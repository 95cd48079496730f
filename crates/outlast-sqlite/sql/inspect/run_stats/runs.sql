-- Returns the run counts since a minute, newest first.
-- Parameters: 1 since, 2 limit.
-- Index: primary key of runs.
-- Bound: the limit.
select minute, machine, machine_version, step, outcome, next_step, count, micros
from runs
where minute >= ?1
order by minute desc, machine desc, machine_version desc, step desc, outcome desc, next_step desc
limit ?2
