-- Adds to the counts of runs.
--
-- $1 minutes  $2 machine  $3 versions  $4 steps  $5 outcomes  $6 next steps, or empty  $7 counts
-- $8 µs
-- guard   each key is named once
-- locks   the rows of the keys in the given order, which all nodes share (core's RunStats)
-- index   runs_pkey
-- bound   the rows given
insert into outlast.runs as r (minute, machine, machine_version, step, outcome, next_step, count, micros)
select t.minute, t.machine, t.machine_version, t.step, t.outcome, t.next_step, t.count, t.micros
  from unnest($1::timestamptz[], $2::text[], $3::integer[], $4::text[], $5::text[], $6::text[], $7::bigint[],
              $8::bigint[]) as t (minute, machine, machine_version, step, outcome, next_step, count, micros)
on conflict (minute, machine, machine_version, step, outcome, next_step)
do update set count = r.count + excluded.count, micros = r.micros + excluded.micros
