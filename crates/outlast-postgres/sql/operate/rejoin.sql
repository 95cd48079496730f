-- Counts retried children for their parents again, if the parent still waits for their round.
--
-- $1 ids  $2 revisions of the children
-- guard   the children's fence; the parent waits, and for this round (I6). A workflow never does:
--         the failure has woken it, or it did not wait for this child
-- locks   parents, held since operate/lock_parents.sql
-- index   instances_pkey, instances_children
-- bound   BATCH_MAX; CHILDREN_MAX for a parent whose first failure is retried
--
-- A sibling that fails at the same time waits for the parent's lock and is not visible here.
with
retried as materialized (
    select o.parent_id, o.parent_round, count(*)::integer as children
      from (select i.parent_id, i.parent_round
              from unnest($1::bigint[], $2::bigint[]) as c (id, revision)
              join outlast.instances i on i.id = any (array[c.id]) and i.revision = c.revision
            offset 0) as o
     where o.parent_id is not null
     group by o.parent_id, o.parent_round
)
update outlast.instances p
   set children_pending = p.children_pending + r.children,
       -- Older versions did not count failures, so the count may be too low.
       children_failed = greatest(p.children_failed - r.children, 0),
       first_failure = case when p.first_failure = any ($1) then
                           (select c.id
                              from outlast.instances c
                             where c.parent_id = p.id and c.parent_round = p.round
                               and c.status in ('failed', 'cancelled') and c.id <> all ($1)
                             order by c.finished_at, c.id + 0
                             limit 1)
                            else p.first_failure end,
       updated_at = outlast.now()
  from retried r
 where p.id = any (array[r.parent_id]) and p.round = r.parent_round and p.status = 'awaiting_children'
   and p.joining is null
