-- Locks the rows of outcomes, in the order of their ids.
--
-- $1 ids
-- guard   none: every later statement has the fence. A row of a lost claim is locked too. If a
--         server crash lost the claim, another worker can claim the row at the same revision.
--         Between two statements of this commit that would leave half an outcome
-- locks   own rows by id
-- index   instances_pkey
-- bound   the batch
--
-- A separate statement: the next ones must see every signal that was delivered while this one
-- waited (docs/protocol.md, defect 2).
select i.id
  from unnest($1::bigint[]) as c (id)
  join outlast.instances i on i.id = any (array[c.id])
 order by c.id
   for no key update of i
