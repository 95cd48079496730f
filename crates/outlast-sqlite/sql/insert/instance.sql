-- Inserts an instance. Inserts nothing when its correlation key is occupied (I9).
-- Parameters: 1 machine, 2 version, 3 step, 4 state, 5 status, 6 revision, 7 queue, 8 priority,
--   9 eligible_at, 10 partition key, 11 worker, 12 parent, 13 parent's round, 14 correlation key,
--   15 correlation scope, 16 now, 17 trace, 18 position, 19 policy or null, 20 whether it waits
--   for a place in a window, null without a window, 21 timeout in µs, 22 timeout of a run in µs,
--   23 when it times out, 24 when its run times out; each null without one.
-- Guard: instances_correlation.
-- Bound: one row.
insert into instances (
    machine, machine_version, step, state, status, revision, queue, priority, eligible_at, partition_key,
    locked_by, parent_id, parent_round, correlation_key, correlation_scope, correlation_guard,
    inserted_at, updated_at, trace, parent_position, on_parent_close, held, blocked,
    timeout_us, run_timeout_us, timeout_at, run_timeout_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?14, ?16, ?16, ?17, ?18, ?19, ?20,
    coalesce(?20, 0), ?21, ?22, ?23, ?24)
on conflict (machine, correlation_guard) where correlation_guard is not null do nothing
