-- Returns whether the role may write.
select has_table_privilege('outlast.delays', 'insert') as may_write
