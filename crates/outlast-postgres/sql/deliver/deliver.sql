-- Inserts signals into inboxes, and wakes their waiting targets or claims them for a worker.
--
-- Per signal: $1 target id  $2 machine and $3 correlation key of the address, or null  $4 name
-- $5 payload  $6 dedup key;  $7 how many unconsumed signals an inbox may hold
-- $8 the worker to claim for, or null, with  $9 its queues  $10 its machines as 'name/version'
-- $11 how many holders and former holders of a key are searched for a dedup key
-- $12 per signal, whether it is an update
-- guard   the target has not finished and still holds the key of the address; with a worker: its
--         lease is alive (deliver/lock.sql has locked its row)
-- locks   own rows, held since deliver/lock.sql: every writer of an inbox holds its instance's
--         lock
-- index   instances_pkey, instances_keys, signals_dedup, signals_inbox, workers_pkey, queues_pkey
-- bound   BATCH_MAX, and HOLDERS_MAX per signal with a key and a dedup key
--
-- Answers in the caller's order: delivered, duplicate, inbox_full or no_target. The answer is
-- vanished if the instance that was found by its key has released the key since.
--
-- A known dedup key is a duplicate even after the target has finished. For a signal by key, it is
-- one even for the next holder. The search runs under the holder's lock. A signal that a former
-- holder received by this key was committed before that holder released the key.
--
-- A signal to a workflow that needs all removes its name from `awaits`. The signal that completes
-- the set wakes the workflow.
--
-- A signal to an executing row is noted on the row, for the commit of its step. The row keeps its
-- revision and its indexed columns (HOT). A row that an earlier statement of this delivery has
-- claimed is not noted: its claim is read after the last signal.
with
clock as materialized (
    select outlast.now() as now
),
given as materialized (
    select nextval('outlast.signals_id_seq') as id, s.*
      from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[],
                  $12::boolean[])
        as s (target_id, machine, correlation_key, name, payload, dedup_key, wants_reply)
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
           i.status = 'executing'
               and (i.xmin <> pg_current_xact_id()::xid or i.latest_signal is not null) as runs,
           -- A workflow may wait for children at the same time.
           (i.status = 'awaiting_signal' or i.status = 'awaiting_children' and i.joining is not null)
               and g.name = any (i.awaits) as matches,
           (i.needs_all_revision = i.revision) is true as needs_all, i.awaits,
           i.status = 'awaiting_children'
               or (i.await_deadline > (select now from clock)) is true as lacks_more,
           -- The worker can claim the row at once, without loading children.
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
-- Whether a signal is new to a live target, and how full the inbox is before the first signal.
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
-- Whether each new signal fits, counted as if they came one by one.
placed as materialized (
    select j.*,
           j.is_new
               and j.pending + count(*) filter (where j.is_new)
                                   over (partition by j.target_id order by j.id) <= $7 as fits
      from judged j
),
inserted as (
    insert into outlast.signals (id, target_id, name, payload, dedup_key, inserted_at, wants_reply)
    select p.id, p.target_id, p.name, p.payload::json, p.dedup_key, (select now from clock), p.wants_reply
      from placed p
     where p.fits
),
-- Ids are given under the lock of the target, so the highest id is the latest signal.
noted as (
    update outlast.instances i
       set latest_signal = n.signal_id
      from (select p.target_id, max(p.id) as signal_id
              from placed p
             where p.fits and p.runs
             group by p.target_id) n
     where i.id = any (array[n.target_id])
),
-- The awaited names that have come, each with its first signal.
matched as materialized (
    select p.target_id, p.name, p.needs_all, p.awaits, p.lacks_more, p.claimable,
           min(p.id) as signal_id
      from placed p
     where p.fits and p.matches
     group by p.target_id, p.name, p.needs_all, p.awaits, p.lacks_more, p.claimable
),
-- The targets, each with the signal that wakes it, or null, and the names it still awaits.
waking as materialized (
    select m.target_id, r.awaits, c.signal_id, c.signal_id is not null and m.claimable as is_taken,
           case when m.claimable then 'executing' else 'runnable' end as comes_to
      from (select m.target_id, m.needs_all, m.awaits, m.lacks_more, m.claimable,
                   array_agg(m.name) as names, min(m.signal_id) as first_id,
                   max(m.signal_id) as last_id
              from matched m
             group by m.target_id, m.needs_all, m.awaits, m.lacks_more, m.claimable) m
     cross join lateral (
           select case when m.needs_all then
                      array(select a.name
                              from unnest(m.awaits) with ordinality as a (name, nth)
                             where a.name <> all (m.names)
                             order by a.nth)
                      else m.awaits end as awaits
           offset 0) r
     cross join lateral (
           select case when not m.needs_all then m.first_id
                       when not m.lacks_more and cardinality(r.awaits) = 0
                       then m.last_id end as signal_id
           offset 0) c
),
woken as (
    update outlast.instances i
       set status = case when w.signal_id is null then i.status else w.comes_to end,
           revision = i.revision + case when w.is_taken then 1 else 0 end,
           locked_by = case when w.is_taken then $8::bigint end,
           latest_signal = null,
           eligible_at = case when w.signal_id is null then i.eligible_at else k.now end,
           awaits = w.awaits,
           await_deadline = case when w.signal_id is null then i.await_deadline end,
           correlation_guard = case when w.signal_id is null
                                      or w.comes_to = any (i.correlation_scope)
                                    then i.correlation_guard end,
           updated_at = k.now
      from waking w
     cross join clock k
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
       p.id in (select w.signal_id from woken w where w.signal_id is not null) as woke
  from placed p
 order by p.id
