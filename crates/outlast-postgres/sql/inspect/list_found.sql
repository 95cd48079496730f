-- A page of instances, newest first, found by the index that one filter has of its own. A filter that is null lets
-- everything pass.
--
-- $1 fsm  $2 version  $3 step  $4 statuses  $5 queue  $6 correlation key  $7 partition key  $8 parent
-- $9 inserted from, $10 until  $11 part of the error  $12 attempts from  $13 waits without a deadline
-- $14 deadline before  $15 ended from, $16 until  $17 before this id  $18 how many, and one more
-- $19 how many to find, and one more  $20 the way: parent, deadline, ended or executing
-- locks none   index instances_children, instances_deadline, instances_finished, instances_locked, instances_pkey
-- bound $19 rows, and $18 of them answered
--
-- One row always, with how many were found in `found`: with $19 of them there are too many to look at, and inspect/list.sql
-- is to be asked instead.
with
found as materialized (
    (select r.id from outlast.instances r where $20 = 'parent' and r.parent_id = $8 limit $19)
    union all
    (select r.id from outlast.instances r where $20 = 'deadline' and r.await_deadline < $14 limit $19)
    union all
    (select r.id
       from outlast.instances r
      where $20 = 'ended'
        and r.finished_at >= coalesce($15::timestamptz, '-infinity')
        and r.finished_at < coalesce($16::timestamptz, 'infinity')
      limit $19)
    union all
    -- Compared, not asked whether it is there: that leaves no other index to find it by. Ids of workers begin at 1.
    (select r.id from outlast.instances r where $20 = 'executing' and r.locked_by > 0 limit $19)
),
page as materialized (
    select i.id, i.fsm, i.fsm_version, i.step, i.state, i.status, i.revision, i.result, i.last_error, i.queue,
           i.priority, i.eligible_at, i.attempt, i.crashes, i.partition_key, i.locked_by, i.awaits, i.await_deadline,
           i.parent_id, i.parent_round, i.round, i.children_pending, i.children_dropped, i.correlation_key,
           i.correlation_scope, i.correlation_guard, i.entered_revision, i.trace, i.inserted_at, i.updated_at,
           i.finished_at, i.parent_position, i.on_parent_close, i.held, i.cancel_requested_at, i.cancel_reason,
           i.cancel_answered, i.join_needs, i.join_fails_fast, i.join_window, i.join_rest, i.children_started,
           i.children_failed, i.first_failure, i.joined, i.run, i.events, i.joining, i.joining_part,
       i.joining_first, i.joining_last, i.joining_left
      from (select f.id
              from found f
             where f.id < $17 and (select count(*) from found) < $19
             order by f.id desc
            offset 0) f
     cross join outlast.instances i
     where i.id = any (array[f.id])
       and ($1::text is null or i.fsm = $1)
       and ($2::integer is null or i.fsm_version = $2)
       and ($3::text is null or i.step = $3)
       and ($4::text[] is null or i.status = any ($4))
       and ($5::text is null or i.queue = $5)
       and ($6::text is null or i.correlation_key = $6)
       and ($7::text is null or i.partition_key = $7)
       and ($8::bigint is null or i.parent_id = $8)
       and ($9::timestamptz is null or i.inserted_at >= $9)
       and ($10::timestamptz is null or i.inserted_at < $10)
       and ($11::text is null or strpos(i.last_error, $11) > 0)
       and ($12::integer is null or i.attempt >= $12)
       and ($13::boolean is null or i.status = 'awaiting_signal' and i.await_deadline is null)
       and ($14::timestamptz is null or i.status = 'awaiting_signal' and i.await_deadline < $14)
       and ($15::timestamptz is null or i.finished_at >= $15)
       and ($16::timestamptz is null or i.finished_at < $16)
     order by f.id desc
     limit $18
)
select (select count(*) from found) as found,
       i.id, i.fsm, i.fsm_version, i.step, i.state::text as state, i.status, i.revision, i.result::text as result,
       i.last_error, i.queue, i.priority, i.eligible_at, i.attempt, i.crashes, i.partition_key, i.locked_by,
       i.awaits, i.await_deadline, i.parent_id, i.parent_round, i.round, i.children_pending,
       i.parent_position, i.on_parent_close, i.held, i.cancel_requested_at, i.cancel_reason, i.cancel_answered, i.join_needs,
       i.join_fails_fast, i.join_window, i.join_rest, i.children_started, i.children_failed, i.first_failure, i.joined,
       i.children_dropped::text as children_dropped, i.correlation_key, i.correlation_scope,
       i.correlation_guard is not null as holds_key, i.entered_revision, i.trace, i.inserted_at, i.updated_at,
       i.finished_at, i.run, i.events, i.joining, i.joining_part,
       i.joining_first, i.joining_last, i.joining_left
  from (select) one
  left join page i on true
 order by i.id desc
