-- commit/park, PROTOCOL §3 #2: locks where it looks. When it had to wait it sees the row anew, but the
-- inbox as it was when the statement began. Waits only.
with
decided as materialized (
    select i.id, c.step, c.state, c.delay_us, c.names::text[] as names,
           exists (select from outlast.signals s
                    where s.target_id = i.id
                      and s.name = any (c.names::text[])
                      and s.consumed_at is null
                      and s.id <> all (c.received::bigint[])) as matched
      from unnest($1::bigint[], $2::bigint[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[])
        as c (id, revision, step, state, delay_us, names, received)
      join outlast.instances i on i.id = c.id and i.revision = c.revision
       for no key update of i
)
update outlast.instances i
   set step = d.step,
       state = d.state::json,
       status = case when d.matched then 'runnable' else 'awaiting_signal' end,
       revision = i.revision + 1,
       eligible_at = outlast.now(),
       locked_by = null,
       awaits = d.names,
       await_deadline = case when not d.matched
                             then outlast.now() + d.delay_us * interval '1 microsecond' end,
       updated_at = outlast.now()
  from decided d
 where i.id = d.id
returning i.id, i.revision - 1 as revision, i.status, case when d.matched then i.queue end as woken
