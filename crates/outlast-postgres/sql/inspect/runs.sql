-- What was run since a minute, the newest first.
--
-- $1 since  $2 how many
-- locks none   index runs_pkey   bound $2
select r.minute, r.fsm, r.fsm_version, r.step, r.outcome, r.next_step, r.count, r.micros
  from outlast.runs r
 where r.minute >= $1
 order by r.minute desc, r.fsm desc, r.fsm_version desc, r.step desc, r.outcome desc, r.next_step desc
 limit $2
