-- Returns how long steps waited before they ran, since a minute, newest first.
-- Parameters: 1 since, 2 limit.
-- Index: primary key of delays.
-- Bound: the limit.
select minute, queue, bin, count
from delays
where minute >= ?1
order by minute desc, queue desc, bin desc
limit ?2
