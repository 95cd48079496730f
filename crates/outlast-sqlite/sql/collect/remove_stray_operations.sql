-- Removes old operations without a stored instance: those on queues, and those that deleted an
-- instance.
-- Parameters: 1 moment, 2 limit.
-- Index: operations_stray.
-- Bound: the limit.
delete from operations
where id in (
    select stray.id
    from operations as stray
    where stray.at <= ?1
      and (stray.instance_id is null or stray.verb = 'delete')
    order by stray.at
    limit ?2)
