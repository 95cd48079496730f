-- Returns an update of an instance with its reply, for a role without rights to the tables.
--
-- $1 instance  $2 id of the update
-- locks   none
-- index   instances_pkey, signals_dedup
-- bound   one row
select signal as id, name, case when state = 'ended' then 'ended' else kind end as reply_kind, reply::text as reply,
       at as replied_at, false as has_ended
  from outlast.reply($1::bigint, $2::text)
 where state is not null
