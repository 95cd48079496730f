-- Records what an operator did.
-- Parameters: 1 verb, 2 instance, 3 queue, 4 operator, 5 reason, 6 status before, 7 now.
-- Bound: one row.
insert into operations (verb, instance_id, queue, operator, reason, status_before, at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
