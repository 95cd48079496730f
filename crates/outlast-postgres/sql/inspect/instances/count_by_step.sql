-- Counts a slice of all instances, ordered by id, by machine, version, step and status.
--
-- $1 after this id  $2 how many to read  $3 how long past its deadline a wait is overdue, in µs
-- $4 from how many retries an instance counts as retrying
-- $5 the prefix of the error of a blocked workflow
-- $6 the prefix of the error of an instance that commits without progress
-- locks   none
-- index   instances_pkey
-- bound   $2
select s.machine, s.machine_version, s.step, s.status,
       count(*) as instances,
       count(*) filter (where s.status in ('awaiting_signal', 'sleeping') and s.await_deadline is null)
           as without_deadline,
       count(*) filter (where s.status in ('awaiting_signal', 'sleeping') and s.await_deadline < s.overdue_before)
           as overdue,
       count(*) filter (where s.status in ('runnable', 'executing') and s.attempt >= $4) as retrying,
       count(*) filter (where s.status in ('runnable', 'executing')
                          and (s.events > 0 and starts_with(s.last_error, $5)
                               or starts_with(s.last_error, $6))) as blocked,
       min(s.updated_at) as oldest_updated_at,
       max(s.id) as last
  from (select i.id, i.machine, i.machine_version, i.step, i.status, i.await_deadline, i.attempt, i.events, i.last_error,
               i.updated_at, k.now - $3::bigint * interval '1 microsecond' as overdue_before
          from (select outlast.now() as now offset 0) k
         cross join lateral (
               select i.id, i.machine, i.machine_version, i.step, i.await_deadline, i.attempt, i.events, i.last_error,
                      i.updated_at,
                      case when i.status = 'awaiting_signal' and coalesce(cardinality(i.awaits), 0) = 0 then 'sleeping'
                           else i.status end as status
                 from outlast.instances i
                where i.id > $1
                order by i.id
                limit $2) i) s
 group by s.machine, s.machine_version, s.step, s.status
