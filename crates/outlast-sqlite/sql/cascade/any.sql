-- Checks whether a cascade is left to run.
-- Bound: one row.
select 1
from cascades
limit 1
