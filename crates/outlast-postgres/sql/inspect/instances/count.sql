-- Counts the instances that match a filter, up to a bound. A null parameter filters nothing.
--
-- $1 machine  $2 version  $3 step  $4 statuses  $5 queue  $6 correlation key  $7 partition key
-- $8 parent  $9 inserted from, $10 until  $11 part of the error  $12 attempts from
-- $13 waits without a deadline  $14 deadline before  $15 finished from, $16 until
-- $17 of rows stored as awaiting a signal: only sleeping ones, only the others, or with null all
-- $18 where to stop
-- locks   none
-- index   the index of a filter, if any
-- bound   $18 rows, and the statement timeout
select count(*) as instances
  from (select
          from outlast.instances i
         where ($1::text is null or i.machine = $1)
           and ($2::integer is null or i.machine_version = $2)
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
           and ($17::boolean is null or i.status <> 'awaiting_signal'
                or (coalesce(cardinality(i.awaits), 0) = 0) = $17)
         limit $18) as counted
