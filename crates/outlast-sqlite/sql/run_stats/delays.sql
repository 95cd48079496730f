-- Adds to the counts of how long steps waited before they ran.
-- Parameters: 1 minute, 2 queue, 3 bin, 4 count.
-- Bound: one row.
insert into delays (minute, queue, bin, count)
values (?1, ?2, ?3, ?4)
on conflict (minute, queue, bin) do update
set count = count + excluded.count
