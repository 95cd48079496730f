-- Claims the most urgent eligible rows of a queue for a worker.
--
-- $1 worker  $2 queue  $3 machines as 'name/version'  $4 how many rows to take
-- $5 how many rows to look at
-- guard   the worker's lease is alive (lease/hold.sql has locked its row), and the queue is not
--         paused
-- locks   the rows looked at, skipping locked ones; the executing row of a partition key, shared,
--         skipping too
-- index   instances_pick for the walk, instances_pkey for the update, signals_inbox to see whether
--         there is a signal; for partition keys instances_partition (I8) and instances_line (an
--         older row of the key); workers_pkey, queues_pkey
-- bound   $5 rows. Delayed rows of an urgent priority are never read. Rows behind a busy key are
--         set aside once (`blocked`) and not read again until the key is free
--
-- Answers the claimed rows and one summary row. The summary has the number of rows looked at and
-- set aside, whether the queue is paused, and the time. If the look reached the end of the queue,
-- it also has the time until the next row becomes eligible, by one probe per priority. Absent
-- values are null, which costs nothing.
with recursive
clock as materialized (
    select outlast.now() as now
),
-- The priorities in use, by one index probe each. So delayed rows of one priority are never read
-- to reach the next.
priorities (priority) as (
    (select i.priority
       from outlast.instances i
      where i.status = 'runnable' and not i.blocked and i.queue = $2
      order by i.priority
      limit 1)
    union all
    select (select i.priority
              from outlast.instances i
             where i.status = 'runnable' and not i.blocked and i.queue = $2 and i.priority > p.priority
             order by i.priority
             limit 1)
      from priorities p
     where p.priority is not null
),
-- Locked before anything is decided, so that no other worker takes the same rows.
looked_at as materialized (
    select e.*
      from priorities p
     cross join lateral (
           select i.id, i.machine, i.machine_version, i.priority, i.eligible_at, i.partition_key, i.blocked
             from outlast.instances i
            where i.status = 'runnable' and not i.blocked and i.queue = $2
              and i.priority = p.priority
              and i.eligible_at <= (select now from clock)
              and i.machine || '/' || i.machine_version = any ($3)
            order by i.eligible_at, i.id
            limit $5
              for no key update skip locked) e
     where exists (select from outlast.workers w
                    where w.id = $1 and w.lease_expires_at > (select now from clock))
       and not exists (select from outlast.queues q where q.name = $2)
     limit $5
),
keyed as materialized (
    select l.*,
           row_number() over (partition by l.partition_key
                                  order by l.priority, l.eligible_at, l.id) as place
      from looked_at l
     where l.partition_key is not null
),
-- The executing rows of these keys that cannot commit before this transaction does. Only behind
-- such a row may another be set aside: its commit comes later and unblocks that row.
running as materialized (
    select r.partition_key
      from (select distinct k.partition_key from keyed k) k
     cross join lateral (
           select i.partition_key
             from outlast.instances i
            where i.status = 'executing' and i.partition_key = k.partition_key
              for share skip locked) r
),
-- At most one row per key, and none while a row of the key executes (I8).
first_in_line as materialized (
    select k.id, k.priority, k.eligible_at, k.partition_key
      from keyed k
     where k.place = 1
       and not exists (select from outlast.instances i
                        where i.status = 'executing' and i.partition_key = k.partition_key
                       offset 0)
       -- Another transaction has an older row of the key locked: leave this row for later.
       and not exists (select from outlast.instances i
                        where i.status = 'runnable' and i.partition_key = k.partition_key
                          and i.blocked = k.blocked and i.held is not true and i.queue = $2
                          and i.machine = k.machine and i.machine_version = k.machine_version
                          and (i.priority, i.eligible_at, i.id) < (k.priority, k.eligible_at, k.id)
                          and i.eligible_at <= (select now from clock)
                       offset 0)
),
taken as materialized (
    select l.id, l.priority, l.eligible_at, l.partition_key from looked_at l where l.partition_key is null
    union all
    select f.id, f.priority, f.eligible_at, f.partition_key from first_in_line f
     order by priority, eligible_at, id
     limit $4
),
claimed as (
    update outlast.instances i
       set status = 'executing',
           revision = i.revision + 1,
           locked_by = $1,
           latest_signal = null,
           correlation_guard = case when 'executing' = any (i.correlation_scope) then i.correlation_guard end,
           updated_at = (select now from clock)
     where i.id = any (array(select t.id from taken t))
    returning i.id, i.revision, i.machine, i.machine_version, i.step, i.state, i.priority, i.attempt, i.crashes,
              i.partition_key, i.correlation_key, i.parent_id, i.parent_round, i.parent_position, i.round,
              i.awaits,
              i.children_dropped, i.eligible_at, i.entered_revision, i.trace, i.joined, i.first_failure,
              i.cancel_requested_at, i.cancel_reason, i.cancel_answered, i.held,
              i.run, i.events, i.joining
),
set_aside as (
    update outlast.instances i
       set blocked = true
     where i.id = any (array(
               select k.id
                 from keyed k
                where k.id not in (select t.id from taken t)
                  and (k.partition_key in (select r.partition_key from running r)
                       or k.partition_key in (select t.partition_key from taken t
                                               where t.partition_key is not null))))
    returning i.id
)
select null::bigint as looked_at, null::bigint as set_aside, null::boolean as paused, null::timestamptz as now,
       null::bigint as due_us,
       c.id, c.revision, c.machine, c.machine_version, c.step, c.state::text as state, c.priority, c.attempt, c.crashes,
       c.partition_key, c.correlation_key, c.parent_id, c.parent_round, c.parent_position, c.round, c.awaits,
       c.children_dropped::text as children_dropped, c.eligible_at, c.entered_revision, c.trace, c.joined,
       c.first_failure, c.cancel_requested_at, c.cancel_reason,
       case when c.cancel_requested_at is not null then c.cancel_answered end as cancel_answered, c.held,
       nullif(c.run, 1) as run, nullif(c.events, 0) as events, nullif(c.joining is not null, false) as is_workflow,
       -- A row with `awaits` was parked. If this statement waited for its lock, its snapshot may
       -- miss the signal that woke it. claim/inbox.sql reads the signals with a new snapshot.
       nullif(c.awaits is not null
              or exists (select from outlast.signals s
                          where s.target_id = c.id and s.consumed_at is null
                         offset 0), false) as has_inbox
  from claimed c
union all
select (select count(*) from looked_at), (select count(*) from set_aside),
       exists (select from outlast.queues q where q.name = $2), (select now from clock),
       case when (select count(*) from looked_at) < $5 then
           (select (extract(epoch from min(d.eligible_at) - (select now from clock)) * 1000000)::bigint
              from priorities p
             cross join lateral (
                   select i.eligible_at
                     from outlast.instances i
                    where i.status = 'runnable' and not i.blocked and i.queue = $2
                      and i.priority = p.priority
                      and i.eligible_at > (select now from clock)
                    order by i.eligible_at, i.id
                    limit 1) d) end,
       null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
       null, null, null, null, null, null, null, null, null, null, null, null, null
