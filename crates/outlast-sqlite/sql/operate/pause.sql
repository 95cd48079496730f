-- Pauses a queue: claims return no rows of it.
-- Parameters: 1 queue, 2 now.
-- Bound: one row.
insert into queues (name, paused_at)
values (?1, ?2)
on conflict (name) do nothing
