-- The children of the current round of claimed rows, in the order they were asked for.
--
-- $1 parent ids  $2 their rounds
-- locks none   index instances_children   bound CHILDREN_MAX per parent
--
-- A statement of its own, after the claim: a parent is released by the commit that ends its last child,
-- so whoever has claimed the parent sees all of them (I6).
select c.parent_id, c.id, c.parent_round, c.fsm, c.fsm_version, c.status, c.state, c.result, c.last_error
  from unnest($1::bigint[], $2::integer[]) as p (id, round)
 cross join lateral (
       select c.parent_id, c.id, c.parent_round, c.fsm, c.fsm_version, c.status, c.state::text as state,
              c.result::text as result, c.last_error
         from outlast.instances c
        where c.parent_id = p.id and c.parent_round = p.round
       offset 0) c
 order by c.id
