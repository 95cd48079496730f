-- Gives a child its place in the window. The child can then be claimed.
-- Parameters: 1 id, 2 now.
-- Guard: the instance waits for a place.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set held = 0,
    blocked = 0,
    updated_at = ?2
where id = ?1 and held = 1
