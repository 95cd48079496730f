-- Returns the earliest deadline.
-- Index: instances_deadline.
-- Bound: one row.
select await_deadline
from instances
where await_deadline is not null
order by await_deadline
limit 1
