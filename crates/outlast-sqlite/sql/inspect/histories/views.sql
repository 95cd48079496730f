-- Returns the views of an instance, of all names or of one, by name.
-- Parameters: 1 instance, 2 name or null, 3 limit.
-- Index: primary key of views.
-- Bound: the limit.
select name, revision, at, data
from views
where instance_id = ?1 and (?2 is null or name = ?2)
order by name
limit ?3
