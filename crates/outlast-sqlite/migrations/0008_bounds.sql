-- Bounds that hold whatever a caller sends, and keys that find an instance after its end.

-- Keys of instances that do not hold them any more.

-- deliver/known_by_key, inspect/find: the latest that hold or held a correlation key. No outcome changes its columns.
create index instances_keys on instances (fsm, correlation_key)
    where correlation_key is not null;

-- How many of the crashes in a row count towards crashes_max. Only `reap` reads and writes it. An outcome resets
-- `crashes` alone, and `reap` ignores this count while `crashes` is 0.
alter table instances add column crashes_counted integer not null default 0 check (crashes_counted >= 0);
