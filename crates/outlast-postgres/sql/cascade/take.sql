-- Locks the oldest cascade that no other transaction works on.
--
-- locks   the cascade, skipping locked ones
-- index   cascades_pkey
-- bound   one row
select c.id, c.parent_id, c.action, c.deep, c.operator, c.reason, c.at_round, c.before_id
  from outlast.cascades c
 order by c.id
 limit 1
   for update skip locked
