-- Returns the oldest cascade. Cascades run in the order of their ids.
-- Bound: one row.
select id, parent_id, from_round, action, deep, operator, reason, at_round, before_id
from cascades
order by id
limit 1
