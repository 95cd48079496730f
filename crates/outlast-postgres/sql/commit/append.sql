-- Adds events to histories, each to the one of the run that its instance is in before the outcome.
--
-- $1 ids  $2 revisions  $3 whether the outcome gives way to a cancel
-- and its events: $4 how many, and as array literals  $5 kinds  $6 calls, or null  $7 names  $8 data
-- $9 moments in µs, or null
-- guard   the fence, and that no cancel waits for an answer to which the outcome gives way
-- locks   own rows, held since commit/lock.sql   index instances_pkey   bound EVENTS_MAX for each of the batch
--
-- Before the outcomes are written, of which most know nothing of histories. What is answered is the moment of the events
-- that have none of their own.
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
