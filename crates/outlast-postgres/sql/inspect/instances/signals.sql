-- Lists the signals of an instance, including tombstones, oldest first.
--
-- $1 instance  $2 after this id  $3 how many, plus one  $4 how many bytes the payloads may have
-- locks   none
-- index   signals_inbox, signals_dedup
-- bound   $3, and $4 bytes of payloads
--
-- `fits` is false for rows beyond the bound in bytes, which come without a payload. The first row
-- always fits. Payloads are measured row by row and found by `ctid`, so at most one payload beyond
-- the bound is read.
with recursive
page as materialized (
    select s.ctid as place, s.id, s.target_id, s.name, s.payload, s.dedup_key, s.wants_reply, s.inserted_at, s.consumed_at
      from (select r.ctid, r.* from outlast.signals r where r.target_id = $1 and r.consumed_at is null
            union all
            select r.ctid, r.* from outlast.signals r
             where r.target_id = $1 and r.dedup_key is not null and r.consumed_at is not null) s
     where s.id > $2
     order by s.id
     limit $3
),
listed as materialized (
    select array_agg(p.place order by p.id) as places, array_agg(p.id order by p.id) as ids from page p
),
fitting (place, bytes) as (
    select 1, s.bytes
      from (select coalesce(octet_length(r.payload::text), 0)::bigint as bytes
              from outlast.signals r
             where r.ctid = (select l.places[1] from listed l)
            offset 0) s
    union all
    select f.place + 1, f.bytes + s.bytes
      from fitting f
     cross join lateral (
            select coalesce(octet_length(r.payload::text), 0)::bigint as bytes
              from outlast.signals r
             where r.ctid = (select l.places[f.place + 1] from listed l)
            offset 0) s
     where f.bytes + s.bytes <= $4
),
last_fitting as materialized (
    select (select l.ids[max(f.place)] from listed l) as id from fitting f
)
select p.id, p.target_id, p.name, p.dedup_key, p.wants_reply, p.inserted_at, p.consumed_at, e.fits,
       case when e.fits then p.payload::text end as payload
  from page p
 cross join lateral (select p.id <= (select l.id from last_fitting l) as fits) e
 order by p.id
