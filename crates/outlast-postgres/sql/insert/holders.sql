-- Finds the holders of correlation keys.
--
-- $1 machine  $2 correlation keys
-- locks   none
-- index   instances_correlation
-- bound   BATCH_MAX
select k.place, i.id
  from unnest($1::text[], $2::text[]) with ordinality as k (machine, correlation_key, place)
 cross join lateral (
       select i.id
         from outlast.instances i
        where i.machine = k.machine and i.correlation_guard = k.correlation_key
       offset 0) i
