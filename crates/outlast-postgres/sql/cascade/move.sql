-- Records how far a cascade has come.
--
-- $1 cascade  $2 the round and $3 the id of the last child that was handled
-- locks   the cascade, held since cascade/take.sql
-- index   cascades_pkey
-- bound   one row
update outlast.cascades k
   set at_round = $2,
       before_id = $3
 where k.id = $1
