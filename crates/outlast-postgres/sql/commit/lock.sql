-- Locks the rows whose claims are still held, in the order of their ids.
--
-- $1 ids  $2 the revisions they were claimed at
-- guard   the fence; a row that does not match, or does not execute any more because the claim was forgotten in
--         a crash, is lost and is not touched by any statement after this
-- locks   own rows by id   index instances_pkey   bound the batch
--
-- A statement of its own: what follows must see every signal that was delivered while this one waited
-- (PROTOCOL §3 #2).
select i.id
  from unnest($1::bigint[], $2::bigint[]) as c (id, revision)
  join outlast.instances i on i.id = any (array[c.id])
                             and i.revision = c.revision and i.status = 'executing'
 order by c.id
   for no key update of i
