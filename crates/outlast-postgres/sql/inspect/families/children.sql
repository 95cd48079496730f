-- Lists the children of an instance, of one round or of all, ordered by id.
--
-- $1 parent  $2 round, or null  $3 after this id  $4 how many, plus one
-- $5 how many bytes their values may have
-- locks   none
-- index   instances_children, instances_pkey
-- bound   $4, and $5 bytes of values
--
-- `fits` is false for rows beyond the bound in bytes, which come without values. The first row
-- always fits. Values are measured row by row, so at most one value beyond the bound is read.
with recursive
page as materialized (
    select c.id, c.parent_round, c.parent_position, c.on_parent_close, c.held, c.machine, c.machine_version, c.run,
           case when c.status = 'awaiting_signal' and coalesce(cardinality(c.awaits), 0) = 0 then 'sleeping'
                else c.status end as status,
           c.state, c.result, c.last_error, c.finished_at
      from outlast.instances c
     where c.parent_id = $1 and ($2::integer is null or c.parent_round = $2) and c.id > $3
     order by c.id
     limit $4
),
listed as materialized (
    select array_agg(p.id order by p.id) as ids from page p
),
fitting (place, bytes) as (
    select 1, s.bytes
      from (select octet_length(i.state::text)::bigint + coalesce(octet_length(i.result::text), 0)
                   + coalesce(octet_length(i.last_error), 0) as bytes
              from outlast.instances i
             where i.id = any (array[(select l.ids[1] from listed l)])
            offset 0) s
    union all
    select f.place + 1, f.bytes + s.bytes
      from fitting f
     cross join lateral (
            select octet_length(i.state::text)::bigint + coalesce(octet_length(i.result::text), 0)
                   + coalesce(octet_length(i.last_error), 0) as bytes
              from outlast.instances i
             where i.id = any (array[(select l.ids[f.place + 1] from listed l)])
            offset 0) s
     where f.bytes + s.bytes <= $5
),
last_fitting as materialized (
    select (select l.ids[max(f.place)] from listed l) as id from fitting f
)
select p.id, p.parent_round, p.parent_position, p.on_parent_close, p.held, p.machine, p.machine_version, p.run, p.status,
       p.finished_at, e.fits,
       case when e.fits then p.state::text else 'null' end as state,
       case when e.fits then p.result::text end as result,
       case when e.fits then p.last_error end as last_error
  from page p
 cross join lateral (select p.id <= (select l.id from last_fitting l) as fits) e
 order by p.id
