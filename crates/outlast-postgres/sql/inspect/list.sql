-- A page of instances, newest first. A filter that is null lets everything pass.
--
-- $1 fsm  $2 version  $3 step  $4 statuses  $5 queue  $6 correlation key  $7 partition key  $8 parent
-- $9 inserted from, $10 until  $11 before this id  $12 how many
-- locks none   index instances_pkey, or the one of a filter   bound $12 rows, and the statement timeout
select i.id, i.fsm, i.fsm_version, i.step, i.state::text as state, i.status, i.revision, i.result::text as result,
       i.last_error, i.queue, i.priority, i.eligible_at, i.attempt, i.crashes, i.partition_key, i.locked_by,
       i.awaits, i.await_deadline, i.parent_id, i.parent_round, i.round, i.children_pending,
       i.children_dropped::text as children_dropped, i.correlation_key, i.correlation_scope,
       i.correlation_guard is not null as holds_key, i.entered_revision, i.trace, i.inserted_at, i.updated_at,
       i.finished_at
  from outlast.instances i
 where ($1::text is null or i.fsm = $1)
   and ($2::integer is null or i.fsm_version = $2)
   and ($3::text is null or i.step = $3)
   and ($4::text[] is null or i.status = any ($4))
   and ($5::text is null or i.queue = $5)
   and ($6::text is null or i.correlation_key = $6)
   and ($7::text is null or i.partition_key = $7)
   and ($8::bigint is null or i.parent_id = $8)
   and ($9::timestamptz is null or i.inserted_at >= $9)
   and ($10::timestamptz is null or i.inserted_at < $10)
   and ($11::bigint is null or i.id < $11)
 order by i.id desc
 limit $12
