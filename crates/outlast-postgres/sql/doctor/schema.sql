-- Returns the version of the schema.
select m.value as version
  from outlast.meta m
 where m.key = 'version'
