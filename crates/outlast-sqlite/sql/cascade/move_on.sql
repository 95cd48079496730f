-- Remembers who was told.
-- Parameters: 1 cascade, 2 round and 3 id of the last.
-- Index: primary key of cascades.
-- Bound: one row.
update cascades
set at_round = ?2,
    before_id = ?3
where id = ?1
