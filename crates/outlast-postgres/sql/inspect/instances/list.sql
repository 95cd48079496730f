-- Returns a page of instances, newest first, by reading instances in the order of their ids.
--
-- A null parameter filters nothing.
--
-- $1 machine  $2 version  $3 step  $4 statuses  $5 queue  $6 correlation key  $7 partition key
-- $8 parent  $9 inserted from, $10 until  $11 part of the error  $12 attempts from
-- $13 waits without a deadline  $14 deadline before  $15 finished from, $16 until
-- $17 of rows stored as awaiting a signal: only sleeping ones, only the others, or with null all
-- $18 before this id  $19 how many, plus one  $20 how many to read
-- $21 whether states, results and dropped children are read  $22 how many bytes they may have
-- locks   none
-- index   instances_pkey
-- bound   $20 rows read, $19 rows answered, $22 bytes of values
--
-- Answers at least one row. `read_to` is the last id read, if the page is not full and rows are
-- left. Reading stops when the page is full. So only a filter with few matches reads up to the
-- bound.
--
-- Without $21 no value is read. With it, `fits` is false for rows beyond the bound in bytes, which
-- come without values. The first row always fits.
with recursive
page as materialized (
    select i.id, i.machine, i.machine_version, i.step, i.state, i.status, i.revision, i.result, i.last_error, i.queue,
           i.priority, i.eligible_at, i.attempt, i.crashes, i.partition_key, i.locked_by, i.awaits, i.await_deadline,
           i.parent_id, i.parent_round, i.round, i.children_pending, i.children_dropped, i.correlation_key,
           i.correlation_scope, i.correlation_guard, i.entered_revision, i.trace, i.inserted_at, i.updated_at,
           i.finished_at, i.parent_position, i.on_parent_close, i.held, i.cancel_requested_at, i.cancel_reason,
           i.cancel_answered, i.join_needs, i.join_fails_fast, i.join_window, i.join_rest, i.children_started,
           i.children_failed, i.first_failure, i.joined, i.run, i.events, i.joining, i.joining_part,
       i.joining_first, i.joining_last, i.joining_left, i.needs_all_revision, i.timeout_at, i.run_timeout_at
      from (select * from outlast.instances r where r.id < $18 order by r.id desc limit $20) i
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
     order by i.id desc
     limit $19
),
-- The last row that was read, and with it the first that was not.
edge as materialized (
    select r.id
      from outlast.instances r
     where r.id < $18 and (select count(*) from page) < $19
     order by r.id desc
    offset $20 - 1
     limit 2
),
listed as materialized (
    select array_agg(p.id order by p.id desc) as ids from page p where $21::boolean
),
-- The bytes of the first rows' values, row by row: at most one value beyond the bound is read.
fitting (place, bytes) as (
    select 1, s.bytes
      from (select octet_length(i.state::text)::bigint + coalesce(octet_length(i.result::text), 0)
                   + coalesce(octet_length(i.last_error), 0) + coalesce(octet_length(i.cancel_reason), 0)
                   + coalesce(octet_length(i.children_dropped::text), 0) as bytes
              from outlast.instances i
             where i.id = any (array[(select l.ids[1] from listed l)])
            offset 0) s
    union all
    select f.place + 1, f.bytes + s.bytes
      from fitting f
     cross join lateral (
            select octet_length(i.state::text)::bigint + coalesce(octet_length(i.result::text), 0)
                   + coalesce(octet_length(i.last_error), 0) + coalesce(octet_length(i.cancel_reason), 0)
                   + coalesce(octet_length(i.children_dropped::text), 0) as bytes
              from outlast.instances i
             where i.id = any (array[(select l.ids[f.place + 1] from listed l)])
            offset 0) s
     where f.bytes + s.bytes <= $22
),
last_fitting as materialized (
    select (select l.ids[max(f.place)] from listed l) as id from fitting f
)
select (select max(e.id) from edge e having count(*) = 2) as read_to,
       i.id, i.machine, i.machine_version, i.step, i.status, i.revision,
       case when s.has_values then i.state::text else 'null' end as state,
       case when s.has_values then i.result::text end as result,
       case when s.has_values then i.children_dropped::text end as children_dropped, s.fits,
       i.last_error, i.queue, i.priority, i.eligible_at, i.attempt, i.crashes, i.partition_key, i.locked_by,
       i.awaits, i.await_deadline, i.parent_id, i.parent_round, i.round, i.children_pending,
       i.parent_position, i.on_parent_close, i.held, i.cancel_requested_at, i.cancel_reason, i.cancel_answered, i.join_needs,
       i.join_fails_fast, i.join_window, i.join_rest, i.children_started, i.children_failed, i.first_failure, i.joined,
       i.correlation_key, i.correlation_scope,
       i.correlation_guard is not null as holds_key, i.entered_revision, i.trace, i.inserted_at, i.updated_at,
       i.finished_at, i.run, i.events, i.joining, i.joining_part,
       i.joining_first, i.joining_last, i.joining_left, i.needs_all_revision, i.timeout_at, i.run_timeout_at
  from (select) one
  left join page i on true
 cross join lateral (
        select (i.id >= (select l.id from last_fitting l)) is not false as fits,
               (i.id >= (select l.id from last_fitting l)) is true as has_values) s
 order by i.id desc
