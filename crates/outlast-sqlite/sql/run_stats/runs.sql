-- Adds to the run counts.
-- Parameters: 1 minute, 2 machine, 3 version, 4 step, 5 outcome, 6 next step or empty, 7 count,
--   8 microseconds.
-- Bound: one row.
insert into runs (minute, machine, machine_version, step, outcome, next_step, count, micros)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
on conflict (minute, machine, machine_version, step, outcome, next_step) do update
set count = count + excluded.count,
    micros = micros + excluded.micros
