-- Removes a received name from the awaited names of a workflow that needs all. Returns whether the
-- workflow lacks nothing more.
-- Parameters: 1 id, 2 name of the signal, 3 now.
-- Guard: none; the target was found waiting for the name, and there is one writer.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set awaits = (select json_group_array(value) from json_each(awaits) where value <> ?2),
    updated_at = ?3
where id = ?1
returning status = 'awaiting_signal' and json_array_length(awaits) = 0
    and coalesce(await_deadline <= ?3, 1) as is_complete
