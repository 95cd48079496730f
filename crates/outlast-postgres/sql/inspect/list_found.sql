-- A page of instances, newest first, found by the index that one filter has of its own. A filter that is null lets
-- everything pass.
--
-- $1 fsm  $2 version  $3 step  $4 statuses  $5 queue  $6 correlation key  $7 partition key  $8 parent
-- $9 inserted from, $10 until  $11 part of the error  $12 attempts from  $13 waits without a deadline
-- $14 deadline before  $15 before this id  $16 how many, and one more  $17 how many to find, and one more
-- $18 the way: parent, deadline or executing
-- locks none   index instances_children, instances_deadline, instances_locked, instances_pkey
-- bound $17 rows, and $16 of them answered
--
-- One row always, with how many were found in `found`: with $17 of them there are too many to look at, and inspect/list.sql
-- is to be asked instead.
with
found as materialized (
    (select r.id from outlast.instances r where $18 = 'parent' and r.parent_id = $8 limit $17)
    union all
    (select r.id from outlast.instances r where $18 = 'deadline' and r.await_deadline < $14 limit $17)
    union all
    -- Compared, not asked whether it is there: that leaves no other index to find it by. Ids of workers begin at 1.
    (select r.id from outlast.instances r where $18 = 'executing' and r.locked_by > 0 limit $17)
),
page as materialized (
    select i.id, i.fsm, i.fsm_version, i.step, i.state, i.status, i.revision, i.result, i.last_error, i.queue,
           i.priority, i.eligible_at, i.attempt, i.crashes, i.partition_key, i.locked_by, i.awaits, i.await_deadline,
           i.parent_id, i.parent_round, i.round, i.children_pending, i.children_dropped, i.correlation_key,
           i.correlation_scope, i.correlation_guard, i.entered_revision, i.trace, i.inserted_at, i.updated_at,
           i.finished_at
      from (select f.id
              from found f
             where f.id < $15 and (select count(*) from found) < $17
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
       and ($14::timestamptz is null or i.await_deadline < $14)
     order by f.id desc
     limit $16
)
select (select count(*) from found) as found,
       i.id, i.fsm, i.fsm_version, i.step, i.state::text as state, i.status, i.revision, i.result::text as result,
       i.last_error, i.queue, i.priority, i.eligible_at, i.attempt, i.crashes, i.partition_key, i.locked_by,
       i.awaits, i.await_deadline, i.parent_id, i.parent_round, i.round, i.children_pending,
       i.children_dropped::text as children_dropped, i.correlation_key, i.correlation_scope,
       i.correlation_guard is not null as holds_key, i.entered_revision, i.trace, i.inserted_at, i.updated_at,
       i.finished_at
  from (select) one
  left join page i on true
 order by i.id desc
