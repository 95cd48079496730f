-- Returns the time until the next deadline; zero or less if one has passed.
--
-- locks   none
-- index   instances_deadline
-- bound   one row
select (extract(epoch from i.await_deadline - outlast.now()) * 1000000)::bigint as due_us
  from outlast.instances i
 where i.await_deadline is not null
 order by i.await_deadline, i.id
 limit 1
