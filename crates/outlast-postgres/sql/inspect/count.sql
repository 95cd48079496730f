-- How many instances fit a filter, up to a bound. A filter that is null lets everything pass.
--
-- $1 fsm  $2 version  $3 step  $4 statuses  $5 queue  $6 correlation key  $7 partition key  $8 parent
-- $9 inserted from, $10 until  $11 where to stop
-- locks none   index the one of a filter, if any   bound $11 rows, and the statement timeout
select count(*) as instances
  from (select
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
         limit $11) as counted
