-- commit/advance, PROTOCOL §3 #3: ends the instance at whatever revision it is. Ends only.
update outlast.instances i
   set status = 'done',
       revision = i.revision + 1,
       result = c.result::json,
       locked_by = null,
       awaits = null,
       await_deadline = null,
       updated_at = outlast.now(),
       finished_at = outlast.now()
  from unnest($1::bigint[], $2::bigint[], $7::text[]) as c (id, revision, result)
 where i.id = c.id
returning i.id, c.revision, null::text as woken
