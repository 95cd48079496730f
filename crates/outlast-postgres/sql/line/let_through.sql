-- Unblocks the next row of a partition key when the row before it leaves `executing`.
--
-- $1 ids of instances that left `executing` or the key's line
-- $2 their revisions before this transaction wrote them
-- guard   this transaction wrote them
-- locks   the unblocked rows
-- index   instances_pkey, instances_line
-- bound   one row per key and group
--
-- Unblocks one row per (queue, machine, version). A group without workers must not starve the
-- others. A claim that sets a row aside holds a lock on the executing row of the key
-- (claim/claim.sql). So this statement, sent after the executing row was written, sees the blocked
-- row.
with recursive
-- The first blocked row of each group, by one index probe per group.
heads (id, partition_key, queue, machine, machine_version) as (
    select h.id, h.partition_key, h.queue, h.machine, h.machine_version
      from (select distinct o.partition_key
              from (select i.partition_key
                      from unnest($1::bigint[], $2::bigint[]) as c (id, revision)
                      join outlast.instances i on i.id = any (array[c.id])
                                              and i.revision = c.revision + 1
                                              and i.xmin = pg_current_xact_id()::xid
                    offset 0) as o
             where o.partition_key is not null) as k
     cross join lateral (
           select n.id, n.partition_key, n.queue, n.machine, n.machine_version
             from outlast.instances n
            where n.status = 'runnable' and n.partition_key = k.partition_key and n.blocked
              and n.held is not true
            order by n.queue, n.machine, n.machine_version, n.priority, n.eligible_at, n.id
            limit 1) h
    union all
    select h.id, h.partition_key, h.queue, h.machine, h.machine_version
      from heads g
     cross join lateral (
           select n.id, n.partition_key, n.queue, n.machine, n.machine_version
             from outlast.instances n
            where n.status = 'runnable' and n.partition_key = g.partition_key and n.blocked
              and n.held is not true
              and (n.queue, n.machine, n.machine_version) > (g.queue, g.machine, g.machine_version)
            order by n.queue, n.machine, n.machine_version, n.priority, n.eligible_at, n.id
            limit 1) h
)
update outlast.instances i
   set blocked = false
 where i.id = any (array(select h.id from heads h)) and i.status = 'runnable' and i.blocked
   and i.held is not true
returning i.queue
