-- Counts waits that are overdue by more than the timers' usual delay.
--
-- $1 how many are counted at most  $2 the usual delay, in microseconds
-- locks   none
-- index   instances_deadline
-- bound   $1
select count(*) as instances,
       (extract(epoch from outlast.now() - min(late.await_deadline)) * 1000000)::bigint as longest_us
  from (select i.await_deadline
          from outlast.instances i
         where i.await_deadline is not null
           and i.await_deadline < outlast.now() - $2 * interval '1 microsecond'
         order by i.await_deadline, i.id
         limit $1) late
