-- Removes a cascade that has handled all children.
--
-- $1 cascade
-- locks   the cascade, held since cascade/take.sql
-- index   cascades_pkey
-- bound   one row
delete from outlast.cascades k where k.id = $1
