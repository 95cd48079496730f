-- Removes the oldest counts of what was run.
-- Parameters: 1 moment, 2 limit.
-- Index: primary key of runs.
-- Bound: the limit.
delete from runs
where (minute, fsm, fsm_version, step, outcome, next_step) in (
    select minute, fsm, fsm_version, step, outcome, next_step
    from runs
    where minute < ?1
    order by minute
    limit ?2)
