-- Counts times in the future of the clock and times out of range, in new instances and all
-- workers.
--
-- $1 how many instances are read  $2 how far ahead a time may be, in microseconds
-- locks   none
-- index   instances_pkey
-- bound   $1
select count(*) as looked,
       count(*) filter (where t.written > t.ahead) as ahead,
       (extract(epoch from max(least(t.written, t.now + interval '1000 years')) - max(t.now)) * 1000000)::bigint as furthest_us,
       -- By the clock that wrote the row, it was runnable at once.
       count(*) filter (where t.status = 'runnable' and t.eligible_at > t.ahead
                          and t.eligible_at <= t.written) as waiting,
       count(*) filter (where t.latest > '9999-12-31 23:59:59+00'
                           or t.earliest < '1970-01-01 00:00:00+00') as strange,
       (select count(*)
          from outlast.workers w
         where w.heartbeat_at > outlast.now() + $2 * interval '1 microsecond') as workers
  from (select i.status, i.eligible_at,
               outlast.now() as now,
               outlast.now() + $2 * interval '1 microsecond' as ahead,
               greatest(i.inserted_at, i.updated_at, i.finished_at) as written,
               greatest(i.inserted_at, i.updated_at, i.eligible_at, i.await_deadline) as latest,
               least(i.inserted_at, i.updated_at, i.eligible_at, i.await_deadline) as earliest
          from outlast.instances i
         order by i.id desc
         limit $1) t
