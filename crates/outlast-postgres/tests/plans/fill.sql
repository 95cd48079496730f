-- A million instances. The last two digits of an id are the kind of its row. The kinds are mixed
-- on every page of the table, as in production.
insert into outlast.workers (id, name, host, version, queues, started_at, heartbeat_at, lease_expires_at)
select n, 'w' || n, 'host', '1', '{main}', now(), now(),
       now() + case when n <= 190 then interval '1 day' else interval '-1 minute' end
  from generate_series(1, 200) as n;

insert into outlast.instances
       (id, machine, machine_version, step, state, status, revision, queue, priority, eligible_at, partition_key,
        blocked, locked_by, awaits, await_deadline, parent_id, parent_round, round, children_pending,
        correlation_key, correlation_scope, correlation_guard, inserted_at, updated_at, finished_at,
        on_parent_close, events, timeout_us, timeout_at)
select n, 'order', 1, 'ship', '{"number": 4711, "address": "a street in a town"}',
       case when kind in (61, 62)         then 'failed'
            when kind = 63                then 'cancelled'
            when kind in (64, 98)         then 'done'
            when kind between 91 and 94   then 'awaiting_signal'
            when kind = 95                then 'awaiting_children'
            when kind in (96, 99)         then 'executing'
            else                               'runnable' end,
       case when kind in (96, 99) then 1 else 0 end,
       case when kind between 31 and 60        then 'q' || n % 7
            when kind between 85 and 90
              or kind = 97                     then 'other'
            else                                    'main' end,
       case when kind = 0              then -5
            when kind between 1 and 30 then -1
            else                            n % 5 end,
       now() + case when kind between 1 and 30 then interval '1 hour' else interval '-2 hours' end
             + n * interval '1 millisecond',
       case when kind = 0             then 'busy'
            when kind = 80            then 'k' || n
            when kind = 90            then 'e' || n + 9
            when n = 99               then 'busy'
            when kind = 99            then 'e' || n end,
       kind = 90,
       case when kind in (96, 99) then n / 100 % 200 + 1 end,
       case when kind between 91 and 94 then array['paid', 'stopped'] end,
       case when kind between 91 and 93 then now() + (n - 100000) * interval '1 second' end,
       case when kind between 96 and 98 then n - kind + 95 end,
       case when kind between 96 and 98 then 1 end,
       case when kind in (63, 95) then 1 else 0 end,
       case when kind = 95 then 2 else 0 end,
       case when kind in (75, 91) then 'c' || n end,
       case when kind in (75, 91)
            then array['runnable', 'executing', 'awaiting_signal', 'awaiting_children'] end,
       case when kind in (75, 91) then 'c' || n end,
       now(), now(),
       case when kind between 61 and 64 then date_trunc('day', now()) - interval '3 days' + n * interval '1 millisecond'
            when kind = 98              then now() end,
       case when kind = 97 then 'terminate' end,
       case when kind in (61, 99) then 2 else 0 end,
       case when kind = 94 then 3600000000 end,
       case when kind = 94 then now() + (n - 100000) * interval '1 second' end
  from (select n, n % 100 as kind from generate_series(1, 1000000) as n) as numbered;

-- One family of 100,000 children in a window, with a cascade for it. Half of the children are
-- done, 50 run, and the window holds the rest.
insert into outlast.instances
       (id, machine, machine_version, step, state, status, queue, priority, eligible_at, round, children_pending,
        children_started, join_window, run, events, inserted_at, updated_at)
values (1000095, 'order', 1, 'join', '{}', 'awaiting_children', 'family', 0, now(), 1, 50050, 100000, 50, 12, 5000, now(), now());

insert into outlast.instances
       (id, machine, machine_version, step, state, status, queue, priority, eligible_at, locked_by, blocked, held,
        parent_id, parent_round, parent_position, on_parent_close, inserted_at, updated_at, finished_at)
select 1100000 + n, 'order', 1, 'ship', '{}',
       case when n < 49950 then 'done' when n < 50000 then 'executing' else 'runnable' end,
       'family', 0, now(),
       case when n between 49950 and 49999 then 150 end,
       n >= 50000, n >= 50000, 1000095, 1, n, 'terminate', now(), now(),
       case when n < 49950 then now() end
  from generate_series(0, 99999) as n;

insert into outlast.cascades (id, parent_id, from_round, upto_round, at_round, action, deep, operator, created_at)
values (1, 1000095, 1, 1, 1, 'policy', false, 'parent', now());

-- Two signals for each running instance, one of them an update; one signal of another name for
-- waiting instances; and tombstones of unanswered updates.
insert into outlast.signals (id, target_id, name, payload, dedup_key, inserted_at, consumed_at, wants_reply)
select 2 * n + nth, n, case when kind = 99 then 'paid' else 'other' end,
       case when kind <> 65 then json '{"amount": 100}' end,
       case when nth = 1 or kind = 65 then 'd' || nth end,
       now(),
       case when kind = 65 then now() end,
       nth = 1 or kind = 65
  from (select n, n % 100 as kind from generate_series(1, 1000000) as n) as numbered
 cross join generate_series(0, 1) as nth
 where kind = 99 or kind in (65, 92, 94) and nth = 0;

-- Two events for each running instance and for some ended ones, and ten runs of one instance.
insert into outlast.events (instance_id, run, seq, at, kind, call, name, data)
select n * 100 + kind, 1, seq, now(), 'step_completed', seq, 'reserve', json '{"number": 4711}'
  from generate_series(0, 9999) as n
 cross join unnest(array[61, 99]) as kind
 cross join generate_series(1, 2) as seq
union all
select 1000095, run, seq, now(), 'step_completed', seq, 'reserve', json '{"number": 4711}'
  from generate_series(3, 12) as run
 cross join generate_series(1, 5000) as seq;

-- The operation of each cancelled instance, and many pauses of one queue.
insert into outlast.operations (verb, instance_id, queue, operator, at)
select 'cancel', n * 100 + 63, null, 'somebody', now() - interval '3 days'
  from generate_series(0, 9999) as n
union all
select 'pause', null, 'main', 'somebody', now() - interval '3 days'
  from generate_series(0, 9999) as n;

-- Run stats of the last day, and older ones that are due for deletion. A minute has a hundred
-- kinds.
insert into outlast.runs (minute, machine, machine_version, step, outcome, next_step, count, micros)
select date_trunc('minute', now()) - n / 100 * interval '1 minute', 'order', 1, 'step ' || n % 100, 'next', 'ship', 1, 1
  from generate_series(0, 99999) as n
union all
select date_trunc('minute', now()) - interval '2 days' - n / 100 * interval '1 minute', 'order', 1,
       'step ' || n % 100, 'next', 'ship', 1, 1
  from generate_series(0, 99999) as n;

insert into outlast.delays (minute, queue, bin, count)
select date_trunc('minute', now()) - n / 20 * interval '1 minute', 'main', n % 20, 1
  from generate_series(0, 9999) as n
union all
select date_trunc('minute', now()) - interval '2 days' - n / 20 * interval '1 minute', 'main', n % 20, 1
  from generate_series(0, 9999) as n;

select setval('outlast.cascades_id_seq', 100), setval('outlast.instances_id_seq', 2000000), setval('outlast.signals_id_seq', 4000000),
       setval('outlast.workers_id_seq', 1000);
