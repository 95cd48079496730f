-- Where an instance stands.
-- Parameters: 1 id.
-- Index: primary key of instances.
-- Bound: one row.
select status
from instances
where id = ?1
