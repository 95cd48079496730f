-- Locks the rows that outcomes are for, in the order of their ids.
--
-- $1 ids
-- guard   none here: every statement after this has the fence, and finds of each row what this one has locked. A row
--         whose claim was lost is locked too: a claim that a crash has forgotten can be taken anew at the same
--         revision, and what is done to the row before and after that would be half of an outcome
-- locks   own rows by id   index instances_pkey   bound the batch
--
-- A statement of its own: what follows must see every signal that was delivered while this one waited
-- (docs/protocol.md, defect 2).
select i.id
  from unnest($1::bigint[]) as c (id)
  join outlast.instances i on i.id = any (array[c.id])
 order by c.id
   for no key update of i
