-- Records on a parent the children that were not started because their key was occupied.
--
-- Per child with a key: $1 parent id  $2 parent revision  $3 position  $4 machine
-- $5 correlation key  $6 whether the parent answers a cancel
-- guard   the parent's fence, and that it has no unanswered cancel (commit/spawn.sql)
-- locks   no new rows
-- index   instances_pkey, instances_correlation
-- bound   CHILDREN_MAX
--
-- If children of one outcome share a key, only the first can have been started. It was if its row
-- exists.
with
given as materialized (
    select c.*,
           row_number() over (partition by c.parent_id, c.parent_revision, c.machine, c.correlation_key
                                  order by c.position) as place
      from unnest($1::bigint[], $2::bigint[], $3::integer[], $4::text[], $5::text[],
                  $6::boolean[])
        as c (parent_id, parent_revision, position, machine, correlation_key, answers)
),
dropped as materialized (
    select g.parent_id as id,
           json_agg(json_build_object('position', g.position, 'machine', g.machine, 'key', g.correlation_key,
                                      'holder', h.id)
                    order by g.position)
               filter (where g.place > 1 or h.parent_id is distinct from g.parent_id
                                         or h.parent_round is distinct from p.round + 1) as children
      from given g
      join outlast.instances p on p.id = any (array[g.parent_id])
                                 and p.revision = g.parent_revision and p.status = 'executing'
                                 and (p.cancel_requested_at is null or p.cancel_answered or g.answers)
      left join lateral (
           select h.id, h.parent_id, h.parent_round
             from outlast.instances h
            where h.machine = g.machine and h.correlation_guard = g.correlation_key
           offset 0) h on true
     group by g.parent_id
)
update outlast.instances p
   set children_dropped = d.children
  from dropped d
 where p.id = any (array[d.id])
