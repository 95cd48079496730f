-- Lists how long steps had waited for a worker, per minute, newest first.
--
-- $1 since  $2 how many
-- locks   none
-- index   delays_pkey
-- bound   $2
select d.minute, d.queue, d.bin, d.count
  from outlast.delays d
 where d.minute >= $1
 order by d.minute desc, d.queue desc, d.bin desc
 limit $2
