-- Inserts the children of fan-outs that differ in nothing but their parent and their state, and have no correlation
-- key.
--
-- Per child: $1 parent id  $2 parent revision  $3 state;  for all: $4 fsm  $5 version  $6 step  $7 queue
-- $8 priority  $9 delay in µs  $10 moment in µs, or null  $11 partition key  $12 trace
-- guard   the parent's fence   locks none   index instances_pkey   bound CHILDREN_MAX
--
-- What most fan-outs are, and what insert/alike.sql is to insert/insert.sql: nothing can be in the way of such
-- rows. Ids are given in the caller's order, so that children are known by it. Answers one row.
with
clock as materialized (
    select outlast.now() as now
),
start as materialized (
    select k.now,
           coalesce(timestamptz 'epoch' + $10::bigint * interval '1 microsecond',
                    k.now + $9::bigint * interval '1 microsecond') as eligible_at
      from clock k
),
given as materialized (
    select nextval('outlast.instances_id_seq') as id, c.*
      from unnest($1::bigint[], $2::bigint[], $3::text[]) as c (parent_id, parent_revision, state)
),
spawned as (
    insert into outlast.instances
           (id, fsm, fsm_version, step, state, status, queue, priority, eligible_at, partition_key,
            parent_id, parent_round, trace, inserted_at, updated_at)
    select g.id, $4, $5::integer, $6, g.state::json, 'runnable', $7, $8::smallint, s.eligible_at, $11::text,
           p.id, p.round + 1, $12::text, s.now, s.now
      from given g
      join outlast.instances p on p.id = any (array[g.parent_id])
                                 and p.revision = g.parent_revision and p.status = 'executing'
     cross join start s
)
select $7 as queue, s.eligible_at <= s.now as eligible
  from start s
