-- Puts signals into inboxes and wakes who waits for them, or hands those that can be to a worker.
--
-- Per signal: $1 target id  $2 machine and $3 correlation key it was addressed by, or null  $4 name
-- $5 payload  $6 dedup key;  $7 how many unconsumed signals an inbox may hold
-- $8 the worker to claim for, or null, with  $9 its queues  $10 its machines as 'name/version'
-- $11 how many that hold or held a key are compared with a signal by key and with a dedup key
-- guard   the target has not ended and still holds the key it was addressed by; with a worker: its lease is
--         alive (its row is locked by deliver/lock.sql before)
-- locks   own rows, held since deliver/lock.sql: every writer of an inbox holds its instance's lock
-- index   instances_pkey, instances_keys, signals_dedup, signals_inbox, workers_pkey, queues_pkey
-- bound   BATCH_MAX, and HOLDERS_MAX per signal by key and with a dedup key
--
-- Answers in the caller's order: delivered, duplicate, inbox_full, no_target; or vanished when the instance
-- that was found by its key has let go of it since. A known dedup key is a duplicate also after the end, and by key
-- also for the next holder. That is looked for under the holder's lock: whatever was sent to a former one by this key
-- was committed before that one let go.
with
clock as materialized (
    select outlast.now() as now
),
given as materialized (
    select nextval('outlast.signals_id_seq') as id, s.*
      from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
        as s (target_id, machine, correlation_key, name, payload, dedup_key)
     where $8::bigint is null
        or exists (select from outlast.workers w
                    where w.id = $8 and w.lease_expires_at > (select now from clock))
),
addressed as materialized (
    select g.*, i.queue,
           i.id is not null
               and (g.correlation_key is null
                    or (i.machine = g.machine and i.correlation_guard = g.correlation_key) is true) as found,
           i.finished_at is not null as ended,
           -- A workflow may wait for children at the same time.
           (i.status = 'awaiting_signal' or i.status = 'awaiting_children' and i.joining is not null)
               and g.name = any (i.awaits) as matches,
           -- What the worker could claim at once, without children to be loaded.
           $8::bigint is not null
               and i.queue = any ($9::text[])
               and i.machine || '/' || i.machine_version = any ($10::text[])
               and i.partition_key is null
               and i.round = 0
               and not exists (select from outlast.queues q where q.name = i.queue offset 0) as claimable,
           case when g.dedup_key is null then null
                when g.correlation_key is null then
                    (select s.target_id
                       from outlast.signals s
                      where s.target_id = g.target_id and s.dedup_key = g.dedup_key
                     offset 0)
                else
                    (select h.id
                       from (select o.id
                               from outlast.instances o
                              where o.machine = g.machine and o.correlation_key = g.correlation_key
                              order by -o.id
                              limit $11) h
                      where exists (select from outlast.signals s
                                     where s.target_id = h.id and s.dedup_key = g.dedup_key
                                    offset 0)
                      limit 1) end as known_in,
           row_number() over (partition by g.target_id order by g.id) as nth
      from given g
      left join outlast.instances i on i.id = any (array[g.target_id])
),
-- Which of them are new to a living target, and how full its inbox is before the first.
judged as materialized (
    select a.*,
           a.found and not a.ended and a.known_in is null
               and (a.dedup_key is null
                    or row_number() over (partition by a.target_id, a.dedup_key, a.known_in is null
                                          order by a.id) = 1) as is_new,
           max(case when a.nth = 1 then
                   (select count(*) from (select from outlast.signals s
                                           where s.target_id = a.target_id and s.consumed_at is null
                                           limit $7) as unconsumed) end)
               over (partition by a.target_id) as pending
      from addressed a
),
-- The place each new one takes, counted as if they came one by one.
placed as materialized (
    select j.*,
           j.is_new
               and j.pending + count(*) filter (where j.is_new)
                                   over (partition by j.target_id order by j.id) <= $7 as fits
      from judged j
),
inserted as (
    insert into outlast.signals (id, target_id, name, payload, dedup_key, inserted_at)
    select p.id, p.target_id, p.name, p.payload::json, p.dedup_key, (select now from clock)
      from placed p
     where p.fits
),
waking as materialized (
    select p.target_id, min(p.id) as signal_id,
           case when every(p.claimable) then 'executing' else 'runnable' end as status
      from placed p
     where p.fits and p.matches
     group by p.target_id
),
woken as (
    update outlast.instances i
       set status = w.status,
           revision = i.revision + case when w.status = 'executing' then 1 else 0 end,
           locked_by = case when w.status = 'executing' then $8::bigint end,
           eligible_at = (select now from clock),
           await_deadline = null,
           correlation_guard = case when w.status = any (i.correlation_scope) then i.correlation_guard end,
           updated_at = (select now from clock)
      from waking w
     where i.id = any (array[w.target_id])
    returning w.signal_id
)
select p.id, coalesce(p.known_in, p.target_id) as target_id, p.queue,
       case when p.known_in is not null then 'duplicate'
            when not p.found and p.correlation_key is not null and p.target_id <> 0 then 'vanished'
            when not p.found or p.ended then 'no_target'
            when p.fits then 'delivered'
            when p.dedup_key is not null
                 and bool_or(p.fits) over (partition by p.target_id, p.dedup_key) then 'duplicate'
            else 'inbox_full' end as answer,
       p.id in (select w.signal_id from woken w) as woke
  from placed p
 order by p.id
