-- Pauses a queue, and records it if the queue was active.
--
-- $1 queue  $2 operator  $3 reason
-- locks   the queue's row
-- index   queues_pkey
-- bound   one row
with
paused as (
    insert into outlast.queues (name, paused_at) values ($1, outlast.now())
        on conflict (name) do nothing
    returning name
)
insert into outlast.operations (verb, queue, operator, reason, at)
select 'pause', p.name, $2, $3, outlast.now() from paused p
returning id
