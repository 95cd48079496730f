-- Appends events to histories, in the run that the instance is in before its outcome.
--
-- $1 ids  $2 revisions  $3 whether the outcome yields to a cancel
-- and the events: $4 how many, and as array literals  $5 kinds  $6 calls, or null  $7 names
-- $8 data  $9 times in µs, or null
-- guard   the fence, and that no unanswered cancel exists to which the outcome yields
-- locks   own rows, held since commit/lock.sql
-- index   instances_pkey
-- bound   EVENTS_MAX for each row of the batch
--
-- Sent before the outcomes are written: those statements do not write events. Answers the time of
-- the events that have none.
with
clock as materialized (
    select outlast.now() as now
),
counted as (
    update outlast.instances i
       set events = i.events + o.events
      from unnest($1::bigint[], $2::bigint[], $3::boolean[], $4::integer[], $5::text[], $6::text[], $7::text[],
                  $8::text[], $9::text[])
        as o (id, revision, yields, events, kinds, calls, names, data, at_us)
     cross join clock k
     where i.id = any (array[o.id]) and i.revision = o.revision and i.status = 'executing'
       and (not o.yields or i.cancel_requested_at is null or i.cancel_answered)
    returning i.id, o.revision, i.run, i.events - o.events as seq, k.now as at, o.kinds, o.calls, o.names, o.data,
              o.at_us
),
appended as (
    insert into outlast.events (instance_id, run, seq, at, kind, call, name, data)
    select c.id, c.run, c.seq + e.nth,
           coalesce(timestamptz 'epoch' + e.at_us * interval '1 microsecond', c.at), e.kind, e.call, e.name,
           e.data::json
      from counted c
     cross join lateral unnest(c.kinds::text[], c.calls::integer[], c.names::text[], c.data::text[],
                               c.at_us::bigint[])
       with ordinality as e (kind, call, name, data, at_us, nth)
)
select c.id, c.revision, c.at
  from counted c
