-- Returns facts about the server, and the settings of a new session of this role.
select current_setting('server_version_num')::integer as version,
       current_setting('server_version') as version_text,
       pg_is_in_recovery() as is_standby,
       (select s.reset_val from pg_settings s where s.name = 'default_transaction_read_only') as read_only,
       (select s.reset_val from pg_settings s where s.name = 'default_transaction_isolation') as isolation,
       (select s.reset_val from pg_settings s where s.name = 'synchronous_commit') as synchronous_commit,
       current_setting('fsync') as fsync,
       current_setting('full_page_writes') as full_page_writes,
       current_setting('autovacuum') as autovacuum,
       current_setting('max_connections')::bigint
           - current_setting('superuser_reserved_connections')::bigint as connections_max,
       (select sum(d.numbackends)::bigint from pg_stat_database d) as connections,
       (select age(d.datfrozenxid)::bigint from pg_database d where d.datname = current_database()) as transactions,
       clock_timestamp() as clock
