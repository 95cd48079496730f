-- Reads the children of the current rounds of claimed rows, ordered by id.
--
-- $1 parent ids  $2 their rounds
-- locks   none
-- index   instances_children
-- bound   CHILDREN_MAX per parent
--
-- A separate statement after the claim: the commit that decides a join also wakes the parent. So a
-- later snapshot sees all finished children that decided it (I6). Not sent for workflows, which
-- know the children they wait for.
select c.parent_id, c.id, c.parent_round, c.parent_position, c.on_parent_close, c.held, c.machine, c.machine_version, c.run,
       c.status, c.state, c.result, c.last_error, c.finished_at
  from unnest($1::bigint[], $2::integer[]) as p (id, round)
 cross join lateral (
       select c.parent_id, c.id, c.parent_round, c.parent_position, c.on_parent_close, c.held, c.machine, c.machine_version,
              c.run, c.state::text as state, c.result::text as result, c.last_error, c.finished_at,
              case when c.status = 'awaiting_signal' and coalesce(cardinality(c.awaits), 0) = 0 then 'sleeping'
                   else c.status end as status
         from outlast.instances c
        where c.parent_id = p.id and c.parent_round = p.round
       offset 0) c
 order by c.id
