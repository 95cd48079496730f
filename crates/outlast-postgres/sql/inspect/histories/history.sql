-- Lists events of one run of a workflow, in order.
--
-- $1 instance  $2 run  $3 after this event  $4 how many, plus one
-- $5 how many bytes their data may have
-- locks   none
-- index   events_pkey
-- bound   $4, and $5 bytes of data
--
-- `fits` is false for the first row beyond the bound in bytes. That row comes without its data and
-- is the last. The first row always fits. The data of a run are bounded, so one pass adds up the
-- sizes.
select v.run, v.seq, v.at, v.kind, v.call, v.name, e.fits, case when e.fits then v.data::text else 'null' end as data
  from (select r.run, r.seq, r.at, r.kind, r.call, r.name, r.data, row_number() over growing as place,
               sum(octet_length(r.data::text)) over growing as bytes
          from (select v.run, v.seq, v.at, v.kind, v.call, v.name, v.data
                  from outlast.events v
                 where v.instance_id = $1 and v.run = $2 and v.seq > $3
                 order by v.seq
                 limit $4) r
        window growing as (order by r.seq rows unbounded preceding)) v
 cross join lateral (select v.place = 1 or v.bytes <= $5 as fits) e
 where e.fits or v.place = 2 or v.bytes - octet_length(v.data::text) <= $5
 order by v.seq
