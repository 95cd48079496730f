-- Wakes waits whose deadline has come.
--
-- $1 how many
-- locks own rows by deadline, skipping locked ones   index instances_deadline, instances_pkey   bound $1
with
due as materialized (
    select i.id, i.await_deadline
      from outlast.instances i
     where i.await_deadline <= outlast.now()
     order by i.await_deadline, i.id
     limit $1
       for no key update skip locked
),
woken as (
    update outlast.instances i
       set status = 'runnable',
           eligible_at = outlast.now(),
           await_deadline = null,
           correlation_guard = case when 'runnable' = any (i.correlation_scope) then i.correlation_guard end,
           updated_at = outlast.now()
      from due d
     where i.id = any (array[d.id])
    returning i.id, i.queue, d.await_deadline
)
select w.id, w.queue
  from woken w
 order by w.await_deadline, w.id
