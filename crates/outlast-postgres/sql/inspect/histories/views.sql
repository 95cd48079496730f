-- Lists the views of an instance, of all names or of one, by name.
--
-- $1 instance  $2 name, or null  $3 how many
-- locks   none
-- index   views_pkey
-- bound   $3
select v.name, v.revision, v.at, v.data::text as data
  from outlast.views v
 where v.instance_id = $1 and ($2::text is null or v.name = $2)
 order by v.name
 limit $3
