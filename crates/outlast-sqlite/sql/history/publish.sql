-- Writes a view. A value that is stored already stays as it is, with its revision.
-- Parameters: 1 instance, 2 name, 3 revision after the outcome, 4 moment, 5 data.
-- Guard: the caller has checked the fence.
-- Bound: one row.
insert into views (instance_id, name, revision, at, data)
values (?1, ?2, ?3, ?4, ?5)
on conflict (instance_id, name) do update
    set revision = excluded.revision, at = excluded.at, data = excluded.data
    where views.data <> excluded.data
