-- Brings a held row back into the pick index.
-- Parameters: 1 id.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set blocked = 0
where id = ?1 and blocked = 1
