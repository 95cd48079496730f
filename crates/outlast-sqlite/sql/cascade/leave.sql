-- Inserts a cascade: one row however many children it reaches. The cascade verb works it off in
-- batches.
-- Parameters: 1 parent, 2 first and 3 last round, 4 action, 5 deep, 6 operator, 7 reason, 8 an id
--   above every child's, 9 now.
-- Bound: one row.
insert into cascades (
    parent_id, from_round, upto_round, action, deep, operator, reason, at_round, before_id, created_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?3, ?8, ?9)
