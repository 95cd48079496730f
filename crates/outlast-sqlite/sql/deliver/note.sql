-- Notes the latest signal of an executing instance, for the commit of its step. Changes neither the
-- revision nor an indexed column.
-- Parameters: 1 id, 2 signal.
-- Guard: none; the instance was found executing, and there is one writer.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set latest_signal = ?2
where id = ?1
