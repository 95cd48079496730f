-- Removes the oldest counts of how long steps had waited.
--
-- $1 retention in µs  $2 how many
-- locks   own rows by minute, skipping locked ones
-- index   delays_pkey
-- bound   $2
delete from outlast.delays r
 where r.ctid = any (array(
                select o.ctid
                  from outlast.delays o
                 where o.minute < outlast.now() - $1::bigint * interval '1 microsecond'
                 order by o.minute
                 limit $2
                   for update skip locked))
