-- Removes a cascade that has reached every child.
-- Parameters: 1 cascade.
-- Index: primary key of cascades.
-- Bound: one row.
delete from cascades
where id = ?1
