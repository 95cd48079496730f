-- The deadline of a workflow has come that needs more: it waits on for the rest.
-- Parameters: 1 id, 2 now.
-- Guard: none; due.sql has found it, and there is one writer.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set await_deadline = null,
    updated_at = ?2
where id = ?1
