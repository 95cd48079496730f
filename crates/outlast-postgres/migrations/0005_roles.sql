-- Functions that a role can be given without any table (docs/security.md).
--
-- What starts and signals instances runs with the rights of the schema's owner, so that a role that may call it needs
-- no right to any table. Hence nobody may call anything unless it is granted, names are looked up in the system's
-- own schema and in ours alone, and nothing that comes in is taken on trust.

-- Starts one instance, for the drivers' adapters: as outlast.insert, but it keeps JSON to the letter and says who
-- holds the key. The settings keep its plans whatever the statistics say (docs/decisions/0006).
create or replace function outlast.insert_one(
    machine         text,
    version         integer,
    step            text,
    state           json,
    queue           text,
    priority        smallint,
    delay_us        bigint,
    at_us           bigint,
    partition_key   text,
    correlation_key text,
    scope           text[],
    trace           text,
    out id          bigint,
    -- Who holds the correlation key when it is occupied; null when the holder let go meanwhile.
    out holder      bigint
)
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    moment constant timestamptz := outlast.now();
    start  constant timestamptz := coalesce(timestamptz 'epoch' + at_us * interval '1 microsecond',
                                            moment + delay_us * interval '1 microsecond', moment);
begin
    perform outlast.check_machine(machine, version);
    perform outlast.check_text('step', coalesce(step, ''), 200);
    perform outlast.check_text('queue', coalesce(queue, ''), 200);
    perform outlast.check_json('state', state::jsonb);
    perform outlast.check_text('partition key', partition_key, 512);
    perform outlast.check_text('correlation key', correlation_key, 512);
    perform outlast.check_text('trace', trace, 512);
    if start not between '0001-01-01 00:00:00+00' and '9999-12-31 23:59:59+00' then
        raise invalid_parameter_value using message = 'the start is not between the years 1 and 9999';
    end if;
    if correlation_key is not null then
        perform outlast.check_scope(scope);
    end if;

    insert into outlast.instances as i
        (fsm, fsm_version, step, state, status, queue, priority, eligible_at, partition_key,
         correlation_key, correlation_scope, correlation_guard, trace, inserted_at, updated_at)
    values
        (insert_one.machine, insert_one.version, insert_one.step, insert_one.state, 'runnable',
         insert_one.queue, insert_one.priority, start,
         insert_one.partition_key, insert_one.correlation_key,
         case when insert_one.correlation_key is not null then insert_one.scope end,
         insert_one.correlation_key, insert_one.trace, moment, moment)
    on conflict (fsm, correlation_guard) where correlation_guard is not null do nothing
    returning i.id into insert_one.id;
    if not found then
        select i.id into insert_one.holder
          from outlast.instances i
         where i.fsm = insert_one.machine and i.correlation_guard = insert_one.correlation_key;
    end if;
end
$$;

-- Sends one signal, for the drivers' adapters. The target is an id, or a machine and a correlation key. Answers
-- 'delivered', 'duplicate', 'no_target' or 'inbox_full', and for what it woke the queue where it can be claimed.
drop function outlast.deliver_one(bigint, text, text, text, json, text, bigint);

create function outlast.deliver_one(
    target          bigint,
    machine         text,
    correlation_key text,
    name            text,
    payload         json,
    dedup_key       text,
    inbox_max       bigint,
    out answer      text,
    out id          bigint,
    out instance    bigint,
    out woke        boolean,
    out queue       text
)
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    -- Callers may ask for less than the bound of outlast-core, not for more.
    room    constant bigint := least(inbox_max, 10000);
    ended   boolean;
    matches boolean;
begin
    woke := false;
    perform outlast.check_text('signal', coalesce(name, ''), 200);
    perform outlast.check_json('payload', payload::jsonb);
    perform outlast.check_text('dedup key', dedup_key, 512);
    -- Lock first, in a statement of its own, and look after: the same two-sided protocol as commit/lock.sql
    -- and deliver/lock.sql. A park that was committed while this waited is seen, and nobody parks or ends
    -- until the caller's transaction is over.
    if target is not null then
        select i.id into instance
          from outlast.instances i
         where i.id = target
           for no key update;
    else
        -- When the holder lets go of the key while we wait for it, the row no longer matches and a later
        -- look may find its successor.
        for attempt in 1 .. 5 loop
            select i.id into instance
              from outlast.instances i
             where i.fsm = deliver_one.machine and i.correlation_guard = deliver_one.correlation_key
               for no key update;
            exit when instance is not null;
        end loop;
    end if;
    select i.finished_at is not null,
           i.status = 'awaiting_signal' and deliver_one.name = any (i.awaits)
      into ended, matches
      from outlast.instances i
     where i.id = instance;
    if ended is not false then
        answer := 'no_target';
        instance := null;
        return;
    end if;
    if exists (select from outlast.signals s
                where s.target_id = instance and s.dedup_key = deliver_one.dedup_key) then
        answer := 'duplicate';
        return;
    end if;
    if (select count(*) from (select from outlast.signals s
                               where s.target_id = instance and s.consumed_at is null
                               limit room) as unconsumed) >= room then
        answer := 'inbox_full';
        return;
    end if;

    insert into outlast.signals as s (target_id, name, payload, dedup_key, inserted_at)
    values (instance, deliver_one.name, deliver_one.payload, deliver_one.dedup_key, outlast.now())
    -- A caller with an old snapshot does not see a signal that came since; here it fails to serialise.
    on conflict do nothing
    returning s.id into deliver_one.id;
    if not found then
        answer := 'duplicate';
        return;
    end if;
    answer := 'delivered';
    if matches then
        update outlast.instances i
           set status = 'runnable',
               eligible_at = outlast.now(),
               await_deadline = null,
               updated_at = outlast.now()
         where i.id = instance
        returning i.queue into deliver_one.queue;
        woke := true;
    end if;
end
$$;

create function outlast.check_machine(machine text, version integer) returns void
language plpgsql immutable
as $$
begin
    perform outlast.check_text('machine', coalesce(machine, ''), 200);
    if machine like '%/%' then
        raise invalid_parameter_value using message =
            format('machine %L contains ''/'', which separates name and version', machine);
    end if;
    if version >= 1 is not true then
        raise invalid_parameter_value using message =
            format('version is %s; versions start at 1', coalesce(version::text, 'null'));
    end if;
end
$$;

-- These check all they are given themselves.
alter function outlast.insert(text, text, jsonb, integer, text, integer, timestamptz, text, text, text[], text)
    security definer set search_path = pg_catalog, pg_temp;
alter function outlast.signal(bigint, text, jsonb, text)
    security definer set search_path = pg_catalog, pg_temp;
alter function outlast.signal(text, text, text, jsonb, text)
    security definer set search_path = pg_catalog, pg_temp;
alter function outlast.signal(text, text, text, text, text)
    security definer set search_path = pg_catalog, pg_temp;

-- A new function may be called by everybody, unless that is taken back.
revoke all on function outlast.now() from public;
revoke all on function outlast.check_text(text, text, integer) from public;
revoke all on function outlast.check_scope(text[]) from public;
revoke all on function outlast.check_json(text, jsonb) from public;
revoke all on function outlast.check_machine(text, integer) from public;
revoke all on function
    outlast.insert(text, text, jsonb, integer, text, integer, timestamptz, text, text, text[], text) from public;
revoke all on function outlast.signal(bigint, text, jsonb, text) from public;
revoke all on function outlast.signal(text, text, text, jsonb, text) from public;
revoke all on function outlast.signal(text, text, text, text, text) from public;
revoke all on function outlast.insert_one(
    text, integer, text, json, text, smallint, bigint, bigint, text, text, text[], text) from public;
revoke all on function outlast.deliver_one(bigint, text, text, text, json, text, bigint) from public;
