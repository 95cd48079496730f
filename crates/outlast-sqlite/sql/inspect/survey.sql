-- A slice of all instances in the order of their ids, counted by where they stand.
-- Parameters: 1 after this id, 2 limit, 3 the moment before which a deadline is overdue, 4 how many retries alarm.
-- Index: primary key of instances.
-- Bound: the limit.
select fsm, fsm_version, step, status,
    count(*) as instances,
    count(*) filter (where status = 'awaiting_signal' and await_deadline is null) as without_deadline,
    count(*) filter (where status = 'awaiting_signal' and await_deadline < ?3) as overdue,
    count(*) filter (where status in ('runnable', 'executing') and attempt >= ?4) as retrying,
    min(updated_at) as oldest_updated_at,
    max(id) as last
from (
    select id, fsm, fsm_version, step, status, await_deadline, attempt, updated_at
    from instances
    where id > ?1
    order by id
    limit ?2)
group by fsm, fsm_version, step, status
