-- Returns whether any cascade is left.
--
-- locks   none
-- index   cascades_pkey
-- bound   one row
select exists (select from outlast.cascades k where k.id > 0 limit 1) as is_left
