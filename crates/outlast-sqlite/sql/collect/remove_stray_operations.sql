-- Removes old records that belong to no stored instance.
-- Parameters: 1 moment, 2 limit.
-- Index: operations_at.
-- Bound: the limit.
delete from operations
where id in (
    select stray.id
    from operations as stray
    where stray.at <= ?1
      and not exists (select 1 from instances where instances.id = stray.instance_id)
    order by stray.at
    limit ?2)
