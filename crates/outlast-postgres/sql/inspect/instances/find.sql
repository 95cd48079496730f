-- Returns the instance that holds a correlation key, else the latest that held it.
--
-- $1 machine  $2 correlation key
-- locks   none
-- index   instances_correlation, instances_keys, instances_pkey
-- bound   one row
select i.id, i.machine, i.machine_version, i.step, i.state::text as state, i.status, i.revision, i.result::text as result,
       i.last_error, i.queue, i.priority, i.eligible_at, i.attempt, i.crashes, i.partition_key, i.locked_by,
       i.awaits, i.await_deadline, i.parent_id, i.parent_round, i.round, i.children_pending,
       i.parent_position, i.on_parent_close, i.held, i.cancel_requested_at, i.cancel_reason, i.cancel_answered, i.join_needs,
       i.join_fails_fast, i.join_window, i.join_rest, i.children_started, i.children_failed, i.first_failure, i.joined,
       i.children_dropped::text as children_dropped, i.correlation_key, i.correlation_scope,
       i.correlation_guard is not null as holds_key, i.entered_revision, i.trace, i.inserted_at, i.updated_at,
       i.finished_at, i.run, i.events, i.joining, i.joining_part,
       i.joining_first, i.joining_last, i.joining_left, i.needs_all_revision, i.timeout_at, i.run_timeout_at
  from outlast.instances i
 where i.id = any (array[coalesce(
           (select h.id
              from outlast.instances h
             where h.machine = $1 and h.correlation_guard = $2
            offset 0),
           (select o.id
              from outlast.instances o
             where o.machine = $1 and o.correlation_key = $2
             order by -o.id
             limit 1))])
