-- Removes the oldest counts of runs.
--
-- $1 retention in µs  $2 how many
-- locks   own rows by minute, skipping locked ones
-- index   runs_pkey
-- bound   $2
delete from outlast.runs r
 where r.ctid = any (array(
                select o.ctid
                  from outlast.runs o
                 where o.minute < outlast.now() - $1::bigint * interval '1 microsecond'
                 order by o.minute
                 limit $2
                   for update skip locked))
