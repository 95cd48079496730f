-- Whom each of these processes waits for, in the order of the question.
--
-- $1 process ids
select pg_blocking_pids(p.pid)
  from unnest($1::integer[]) with ordinality as p (pid, place)
 order by p.place
