-- Events of one run of a workflow, in their order.
--
-- $1 instance  $2 run  $3 after this one  $4 how many
-- locks none   index events_pkey   bound $4
select v.run, v.seq, v.at, v.kind, v.call, v.name, v.data::text as data
  from outlast.events v
 where v.instance_id = $1 and v.run = $2 and v.seq > $3
 order by v.seq
 limit $4
