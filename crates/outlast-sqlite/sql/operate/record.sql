-- Records an operation, by an operator or by a parent on its child.
-- Parameters: 1 verb, 2 instance, 3 queue, 4 operator, 5 reason, 6 status before, 7 now, 8 parent
--   that caused it.
-- Bound: one row.
insert into operations (verb, instance_id, queue, operator, reason, status_before, at, cause_id)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
