-- Inserts children that differ only in their parent, position and state, without correlation keys.
--
-- Per child: $1 parent id  $2 parent revision  $3 state  $4 position
-- $5 whether it waits for a slot in a window, or null  $6 whether the parent answers a cancel;
-- for all: $7 machine  $8 version  $9 step  $10 queue  $11 priority  $12 delay in µs
-- $13 time in µs, or null  $14 partition key  $15 trace  $16 timeout in µs, or null
-- $17 timeout of a run in µs, or null  $18 policy, or null
-- guard   the parent's fence, and that it has no unanswered cancel (commit/spawn.sql)
-- locks   none
-- index   instances_pkey
-- bound   CHILDREN_MAX
--
-- Most fan-outs use this statement. Such rows cannot conflict, so it needs less than
-- commit/spawn.sql, as insert/alike.sql needs less than insert/insert.sql. Ids are assigned in the
-- caller's order, so that they identify the children. Answers one row.
with
clock as materialized (
    select outlast.now() as now
),
start as materialized (
    select k.now,
           coalesce(timestamptz 'epoch' + $13::bigint * interval '1 microsecond',
                    k.now + $12::bigint * interval '1 microsecond') as eligible_at
      from clock k
),
given as materialized (
    select nextval('outlast.instances_id_seq') as id, c.*
      from unnest($1::bigint[], $2::bigint[], $3::text[], $4::integer[], $5::boolean[], $6::boolean[])
        as c (parent_id, parent_revision, state, position, held, answers)
),
spawned as (
    insert into outlast.instances
           (id, machine, machine_version, step, state, status, queue, priority, eligible_at, partition_key,
            parent_id, parent_round, parent_position, on_parent_close, held, blocked, trace,
            timeout_us, run_timeout_us, timeout_at, run_timeout_at, inserted_at, updated_at)
    select g.id, $7, $8::integer, $9, g.state::json, 'runnable', $10, $11::smallint, s.eligible_at, $14::text,
           p.id, p.round + 1, g.position, $18::text, g.held, coalesce(g.held, false), $15::text,
           $16::bigint, $17::bigint,
           -- A start in the past does not shorten a timeout.
           greatest(s.eligible_at, s.now) + $16::bigint * interval '1 microsecond',
           greatest(s.eligible_at, s.now) + $17::bigint * interval '1 microsecond', s.now, s.now
      from given g
      join outlast.instances p on p.id = any (array[g.parent_id])
                                 and p.revision = g.parent_revision and p.status = 'executing'
                                 and (p.cancel_requested_at is null or p.cancel_answered or g.answers)
     cross join start s
)
select $10 as queue, s.eligible_at <= s.now as eligible
  from start s
