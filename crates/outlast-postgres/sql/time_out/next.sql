-- Returns the time until the next live instance times out; zero or less if one is due.
--
-- locks   none
-- index   instances_timeout
-- bound   one row
select (extract(epoch from least(i.timeout_at, i.run_timeout_at) - outlast.now()) * 1000000)::bigint as due_us
  from outlast.instances i
 where least(i.timeout_at, i.run_timeout_at) is not null and i.finished_at is null
 order by least(i.timeout_at, i.run_timeout_at), i.id
 limit 1
