-- Counts live instances whose whole timeout is overdue by more than the timers' usual delay.
--
-- $1 how many are counted at most  $2 the usual delay, in microseconds
-- locks   none
-- index   instances_timeout
-- bound   $1
select count(*) as instances,
       (extract(epoch from outlast.now() - min(late.moment)) * 1000000)::bigint as longest_us
  from (select least(i.timeout_at, i.run_timeout_at) as moment
          from outlast.instances i
         where least(i.timeout_at, i.run_timeout_at) < outlast.now() - $2 * interval '1 microsecond'
           and i.finished_at is null
         order by least(i.timeout_at, i.run_timeout_at), i.id
         limit $1) late
