-- Lists sessions, prepared transactions and slots with an open transaction or snapshot, oldest
-- first.
--
-- While they are open, vacuum cannot remove dead row versions. A role without pg_read_all_stats
-- sees only its own sessions.
--
-- $1 how many
select h.kind, h.name, h.seconds, h.is_idle, h.keeps_rows
  from (select 'session' as kind,
               format('%s of %s', a.pid, coalesce(nullif(a.application_name, ''), 'a program without a name')) as name,
               extract(epoch from clock_timestamp() - a.xact_start)::float8 as seconds,
               a.state like 'idle in transaction%' as is_idle,
               coalesce(a.backend_xmin, a.backend_xid) is not null as keeps_rows
          from pg_stat_activity a
         where a.datname = current_database()
           and a.backend_type = 'client backend'
           and a.pid <> pg_backend_pid()
           and a.xact_start is not null
        union all
        select 'prepared transaction', p.gid,
               extract(epoch from clock_timestamp() - p.prepared)::float8, true, true
          from pg_prepared_xacts p
         where p.database = current_database()
        union all
        select 'replication slot', r.slot_name::text, null, not r.active, true
          from pg_replication_slots r
         where (r.database is null or r.database = current_database())
           and greatest(age(r.xmin), age(r.catalog_xmin)) > 1000000) h
 order by h.seconds desc nulls first
 limit $1
