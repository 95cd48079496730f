-- Adds to the counts of how long steps had waited for a worker.
--
-- $1 minutes  $2 queues  $3 bins  $4 counts
-- guard   each key is named once
-- locks   the rows of the keys in the given order, which all nodes share (core's RunStats)
-- index   delays_pkey
-- bound   the rows given
insert into outlast.delays as d (minute, queue, bin, count)
select t.minute, t.queue, t.bin, t.count
  from unnest($1::timestamptz[], $2::text[], $3::smallint[], $4::bigint[]) as t (minute, queue, bin, count)
on conflict (minute, queue, bin) do update set count = d.count + excluded.count
