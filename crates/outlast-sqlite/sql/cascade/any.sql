-- Whether anybody is still to be told.
-- Bound: one row.
select 1
from cascades
limit 1
