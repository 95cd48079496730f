-- Returns how much of the instances table and its indexes is in use.
select greatest(s.n_live_tup, 0) as live,
       greatest(s.n_dead_tup, 0) as dead,
       extract(epoch from clock_timestamp() - greatest(s.last_autovacuum, s.last_vacuum))::float8 as vacuumed_seconds,
       pg_table_size(s.relid) as table_bytes,
       pg_indexes_size(s.relid) as index_bytes
  from pg_stat_all_tables s
 where s.relid = 'outlast.instances'::regclass
