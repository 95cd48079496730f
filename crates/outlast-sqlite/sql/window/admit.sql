-- Gives a child its place in the window: it can be claimed.
-- Parameters: 1 id, 2 now.
-- Guard: it waits for one.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set held = 0,
    blocked = 0,
    updated_at = ?2
where id = ?1 and held = 1
