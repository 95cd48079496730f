-- Clears the passed deadline of a workflow that needs all and lacks more. The workflow stays
-- parked.
-- Parameters: 1 id, 2 now.
-- Guard: none; due.sql has found the row, and there is one writer.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set await_deadline = null,
    updated_at = ?2
where id = ?1
