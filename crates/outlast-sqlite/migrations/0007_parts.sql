-- What a workflow waits for at a time may be several things, each with its own count.
--
--   instances.joining       spans of children: [part (counted from 1), round, first position, last position]
--   instances.joining_left  how many ends of each part are still to come
--
-- A workflow that waits already waits for one thing: all children of its rounds.

alter table instances add column joining_left text check (joining_left is null or json_type(joining_left) = 'array');

update instances
set joining = (select json_group_array(json_array(1, round.value, 0, 2147483647)) from json_each(joining) as round),
    joining_left = iif(joining = '[]', '[]', json_array(children_pending))
where joining is not null;
