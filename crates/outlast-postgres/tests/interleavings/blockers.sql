-- The processes that each of these processes waits for, in the order of the parameter.
--
-- $1 process ids
select pg_blocking_pids(p.pid)
  from unnest($1::integer[]) with ordinality as p (pid, place)
 order by p.place
