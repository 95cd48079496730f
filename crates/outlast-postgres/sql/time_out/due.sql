-- Locks live instances that have taken too long, and says which timeout has passed first. Of two at
-- one moment, that of the instance.
--
-- $1 how many
-- locks   own rows by deadline, skipping locked ones
-- index   instances_timeout
-- bound   $1
--
-- A skipped row is being written by another transaction. If that does not end the instance, the
-- next call finds it again.
select i.id, i.revision, i.round, i.held, i.run, i.status = 'executing' as is_running,
       coalesce(i.run_timeout_at < i.timeout_at, i.timeout_at is null) as is_of_run,
       case when coalesce(i.run_timeout_at < i.timeout_at, i.timeout_at is null) then i.run_timeout_us
            else i.timeout_us end as limit_us
  from outlast.instances i
 where least(i.timeout_at, i.run_timeout_at) <= outlast.now() and i.finished_at is null
 order by least(i.timeout_at, i.run_timeout_at), i.id
 limit $1
   for no key update skip locked
