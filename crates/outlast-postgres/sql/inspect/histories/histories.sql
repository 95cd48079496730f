-- Lists the runs of a workflow whose history is stored, in order.
--
-- $1 instance  $2 how many runs are kept
-- locks   none
-- index   instances_pkey, events_pkey
-- bound   $2
--
-- Events are numbered from 1 without gaps, so the last number is the number of events.
select g.run, l.seq as events, f.at as started_at, l.at as last_at, l.kind as last
  from (select greatest(i.run - $2::integer, 0) as before, i.run as upto
          from outlast.instances i
         where i.id = $1
        offset 0) i
 cross join lateral generate_series(i.before + 1, i.upto) as g (run)
 cross join lateral (
       select v.at
         from outlast.events v
        where v.instance_id = $1 and v.run = g.run
        order by v.seq
        limit 1) f
 cross join lateral (
       select v.seq, v.at, v.kind
         from outlast.events v
        where v.instance_id = $1 and v.run = g.run
        order by v.seq desc
        limit 1) l
 order by g.run
