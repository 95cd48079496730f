-- Counts the children of machines again, and wakes a machine whose join is thereby decided.
--
-- $1 ids
-- guard   repair/find.sql has found them under the lock
-- locks   own rows, held since operate/lock.sql. A child counts its end under that lock, so an end
--         is counted here or counts itself
-- index   instances_pkey, instances_children
-- bound   BATCH_MAX, and for each row the children of its round
with
counted as materialized (
    select p.id, c.pending, c.failed, c.first_failure,
           outlast.joined(p.join_needs, p.join_fails_fast, p.children_started, c.pending, c.failed) as joined
      from unnest($1::bigint[]) as g (id)
      join outlast.instances p on p.id = any (array[g.id])
     cross join lateral (
           select count(*) filter (where n.finished_at is null)::integer as pending,
                  count(*) filter (where n.status in ('failed', 'cancelled'))::integer as failed,
                  (array_agg(n.id order by n.finished_at, n.id)
                       filter (where n.status in ('failed', 'cancelled')))[1] as first_failure
             from outlast.instances n
            where n.parent_id = p.id and n.parent_round = p.round
           offset 0) c
),
written as (
    update outlast.instances p
       set children_pending = c.pending,
           children_failed = c.failed,
           first_failure = case when c.failed > 0 then coalesce(p.first_failure, c.first_failure) end,
           joined = c.joined,
           status = case when c.joined is null then p.status else 'runnable' end,
           eligible_at = case when c.joined is null then p.eligible_at else outlast.now() end,
           await_deadline = case when c.joined is null then p.await_deadline end,
           correlation_guard = case when c.joined is null or 'runnable' = any (p.correlation_scope)
                                    then p.correlation_guard end,
           updated_at = outlast.now()
      from counted c
     where p.id = any (array[c.id])
    returning p.id, p.queue, p.round, p.join_rest, p.joined, p.status = 'runnable' as released,
              p.status = 'runnable' and p.children_pending > 0 and p.join_rest is not null as cascades
),
-- Cascades to the children that the join was decided without.
told as (
    insert into outlast.cascades
           (parent_id, from_round, upto_round, at_round, action, deep, operator, reason, created_at)
    select w.id, w.round, w.round, w.round, case w.join_rest when 'request_cancel' then 'cancel' else w.join_rest end,
           false, 'parent', format('the join of parent %s was decided: %s', w.id, w.joined), outlast.now()
      from written w
     where w.cascades
     order by w.id
)
select w.queue, w.released, w.cascades
  from written w
