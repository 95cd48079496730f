-- Removes the oldest run counts.
-- Parameters: 1 moment, 2 limit.
-- Index: primary key of runs.
-- Bound: the limit.
delete from runs
where (minute, machine, machine_version, step, outcome, next_step) in (
    select minute, machine, machine_version, step, outcome, next_step
    from runs
    where minute < ?1
    order by minute
    limit ?2)
