-- Resumes a queue, and records it if the queue was paused.
--
-- $1 queue  $2 operator  $3 reason
-- locks   the queue's row
-- index   queues_pkey
-- bound   one row
with
resumed as (
    delete from outlast.queues q where q.name = $1 returning q.name
)
insert into outlast.operations (verb, queue, operator, reason, at)
select 'resume', r.name, $2, $3, outlast.now() from resumed r
returning id
