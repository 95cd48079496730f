-- Stores how far a cascade has come, so that the next batch starts after it.
-- Parameters: 1 cascade, 2 round and 3 id of the last child.
-- Index: primary key of cascades.
-- Bound: one row.
update cascades
set at_round = ?2,
    before_id = ?3
where id = ?1
