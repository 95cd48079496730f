-- Instances and runs of workflows may have a timeout (docs/decisions/0053).
--
-- Rows without one have null in every column, and are in no new index.

-- How long the instance may take in all, and each run of it, in microseconds.
alter table instances add column timeout_us integer check (timeout_us > 0);
alter table instances add column run_timeout_us integer check (run_timeout_us > 0);

-- When it fails as timed out. An insert and a retry set both, continue-as-new sets the second. No
-- other outcome writes them, so a commit does not write the index.
alter table instances add column timeout_at integer;
alter table instances add column run_timeout_at integer;

-- time_out/due, time_out/next: the earlier of both moments, of live instances by time.
create index instances_timeout
    on instances (coalesce(min(timeout_at, run_timeout_at), timeout_at, run_timeout_at))
    where finished_at is null and coalesce(timeout_at, run_timeout_at) is not null;
