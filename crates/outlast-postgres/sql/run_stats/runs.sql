-- Adds to the counts of what was run.
--
-- $1 minutes  $2 machine  $3 versions  $4 steps  $5 outcomes  $6 steps that follow, or empty  $7 counts  $8 µs
-- guard each key is named once
-- locks the rows of the keys, in the order they are given in, which is the same for everybody (core's Traffic)
-- index runs_pkey   bound the rows given
insert into outlast.runs as r (minute, machine, machine_version, step, outcome, next_step, count, micros)
select t.minute, t.machine, t.machine_version, t.step, t.outcome, t.next_step, t.count, t.micros
  from unnest($1::timestamptz[], $2::text[], $3::integer[], $4::text[], $5::text[], $6::text[], $7::bigint[],
              $8::bigint[]) as t (minute, machine, machine_version, step, outcome, next_step, count, micros)
on conflict (minute, machine, machine_version, step, outcome, next_step)
do update set count = r.count + excluded.count, micros = r.micros + excluded.micros
