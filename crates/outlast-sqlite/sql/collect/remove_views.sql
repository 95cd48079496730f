-- Removes the views of an instance.
-- Parameters: 1 instance.
-- Index: primary key of views.
-- Bound: the views of one instance.
delete from views
where instance_id = ?1
