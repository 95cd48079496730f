-- A bound on crashes in a row, and correlation keys that find an instance after it has finished.

-- Serves deliver/known_by_key and inspect/instances/find: the latest instances that hold or held
-- a key.
-- No outcome changes the indexed columns, so a commit does not write this index.
create index instances_keys on instances (fsm, correlation_key)
    where correlation_key is not null;

-- How many of the crashes in a row count towards crashes_max. Only `reap` reads and writes it.
-- An outcome resets `crashes` only, and `reap` ignores this count while `crashes` is 0.
alter table instances add column crashes_counted integer not null default 0 check (crashes_counted >= 0);
