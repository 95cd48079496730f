-- The signals of an instance with the tombstones, oldest first.
--
-- $1 instance  $2 after this id  $3 how many
-- locks none   index signals_inbox, signals_dedup   bound $3
select s.id, s.target_id, s.name, s.payload::text as payload, s.dedup_key, s.inserted_at, s.consumed_at
  from (select * from outlast.signals where target_id = $1 and consumed_at is null
        union all
        select * from outlast.signals
         where target_id = $1 and dedup_key is not null and consumed_at is not null) s
 where s.id > $2
 order by s.id
 limit $3
