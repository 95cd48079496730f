-- Removes the oldest counts of how long steps waited.
-- Parameters: 1 moment, 2 limit.
-- Index: primary key of delays.
-- Bound: the limit.
delete from delays
where (minute, queue, bin) in (
    select minute, queue, bin
    from delays
    where minute < ?1
    order by minute
    limit ?2)
