-- Lists the counts of runs per minute, newest first.
--
-- $1 since  $2 how many
-- locks   none
-- index   runs_pkey
-- bound   $2
select r.minute, r.machine, r.machine_version, r.step, r.outcome, r.next_step, r.count, r.micros
  from outlast.runs r
 where r.minute >= $1
 order by r.minute desc, r.machine desc, r.machine_version desc, r.step desc, r.outcome desc, r.next_step desc
 limit $2
