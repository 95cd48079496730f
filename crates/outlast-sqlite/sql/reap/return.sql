-- Returns a dead worker's claim to its queue. eligible_at stays, so that the row keeps its
-- position.
-- Parameters: 1 id, 2 now, 3 crashes that count.
-- Guard: the instance is executing.
-- Index: primary key of instances.
-- Bound: one row.
update instances
set status = 'runnable',
    revision = revision + 1,
    attempt = attempt + 1,
    crashes = crashes + 1,
    crashes_counted = ?3,
    locked_by = null,
    updated_at = ?2
where id = ?1 and status = 'executing'
returning queue, eligible_at, partition_key
