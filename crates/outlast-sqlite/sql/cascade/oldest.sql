-- The word that has waited longest.
-- Bound: one row.
select id, parent_id, from_round, action, deep, operator, reason, at_round, before_id
from cascades
order by id
limit 1
