-- Reads the rows that a delivery claimed for its worker, then their unconsumed signals, oldest
-- first.
--
-- $1 target ids, each once
-- locks   none: the rows are held since deliver/lock.sql
-- index   instances_pkey, signals_inbox
-- bound   CLAIM_MAX rows, INBOX_MAX signals per row
--
-- A separate statement after deliver/deliver.sql, so that it sees what that wrote. The delivery
-- claimed an executing row if this transaction wrote it and noted no signal on it. Other executing
-- rows ran before. Signals have a target and claimed rows have none. Absent values are null, which
-- costs nothing.
with
taken as materialized (
    select i.*
      from unnest($1::bigint[]) as t (id)
     cross join lateral (
           select i.id, i.revision, i.machine, i.machine_version, i.step, i.state, i.status, i.queue, i.priority,
                  i.attempt, i.crashes, i.partition_key, i.correlation_key, i.parent_id, i.parent_round,
                  i.parent_position, i.round, i.awaits, i.children_dropped, i.eligible_at, i.entered_revision, i.trace,
                  i.joined, i.first_failure, i.cancel_requested_at, i.cancel_reason, i.cancel_answered, i.held,
                  i.run, i.events, i.xmin as written_by, i.latest_signal
             from outlast.instances i
            where i.id = any (array[t.id])
           offset 0) i
     where i.status = 'executing' and i.written_by = pg_current_xact_id()::xid and i.latest_signal is null
)
select t.id, null::bigint as target_id, null::text as name, null::text as payload, null::text as dedup_key,
       null::boolean as wants_reply, null::timestamptz as inserted_at,
       t.revision, t.machine, t.machine_version, t.step, t.state::text as state, t.queue, t.priority, t.attempt,
       t.crashes, t.partition_key, t.correlation_key, t.parent_id, t.parent_round, t.parent_position, t.round, t.awaits,
       t.children_dropped::text as children_dropped, t.eligible_at, t.entered_revision, t.trace, t.joined,
       t.first_failure, t.cancel_requested_at, t.cancel_reason, t.cancel_answered, t.held, t.run, t.events
  from taken t
union all
(select s.id, s.target_id, s.name, s.payload::text, s.dedup_key, s.wants_reply, s.inserted_at,
        null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
        null, null, null, null, null, null, null, null, null, null, null
   from taken t
  cross join lateral (
        select s.target_id, s.id, s.name, s.payload, s.dedup_key, s.wants_reply, s.inserted_at
          from outlast.signals s
         where s.target_id = t.id and s.consumed_at is null
        offset 0) s
  order by s.id)
