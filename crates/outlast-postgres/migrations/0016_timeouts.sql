-- Instances and runs of workflows may have a timeout (docs/decisions/0053).
--
-- The new columns need no rewrite. Rows without a timeout have null in each of them, and are in no
-- new index.

alter table outlast.instances
    -- How long the instance may take in all, and each run of it.
    add column timeout_us     bigint,
    add column run_timeout_us bigint,
    -- When it fails as timed out. An insert and a retry set both, continue-as-new sets the second.
    -- No other outcome changes them, so commits stay on their page (HOT).
    add column timeout_at     timestamptz,
    add column run_timeout_at timestamptz;

-- time_out/due.sql, time_out/next.sql: live instances by the earlier of both moments.
create index instances_timeout
    on outlast.instances (least(timeout_at, run_timeout_at), id)
    where least(timeout_at, run_timeout_at) is not null and finished_at is null;

-- Refuses a timeout that outlast-core refuses.
create function outlast.check_timeout(what text, seconds numeric) returns void
language plpgsql immutable
as $$
begin
    if seconds not between 0.000001 and 316224000 then
        raise invalid_parameter_value using message =
            format('%s is %s s; it must be between 0.000001 s and ten years (316224000 s)', what, seconds);
    end if;
end
$$;

-- Starts an instance in the caller's transaction, from any language. Answers its id, or null if
-- its correlation key is occupied. A null queue means the machine's own queue, a null timeout none.
create function outlast.insert(
    machine         text,
    step            text,
    state           jsonb       default '{}',
    version         integer     default 1,
    queue           text        default null,
    priority        integer     default 0,
    eligible_at     timestamptz default null,
    partition_key   text        default null,
    correlation_key text        default null,
    scope           text[]      default '{runnable,executing,awaiting_signal,awaiting_children}',
    trace           text        default null,
    timeout         interval    default null
) returns bigint
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
-- A parameter has the name of a column. In `on conflict` the column is meant.
#variable_conflict use_column
declare
    moment    constant timestamptz := outlast.now();
    length_us bigint;
    ends      timestamptz;
    new_id    bigint;
begin
    perform outlast.check_new_machine(machine, version);
    perform outlast.check_name('step', coalesce(step, ''), 200);
    queue := coalesce(queue, outlast.queue_of(machine, version));
    perform outlast.check_name('queue', coalesce(queue, ''), 200);
    perform outlast.check_json('state', state);
    perform outlast.check_name('partition key', partition_key, 512);
    perform outlast.check_name('correlation key', correlation_key, 512);
    perform outlast.check_name('trace', trace, 512);
    perform outlast.check_moment('eligible_at', eligible_at);
    if priority between -32768 and 32767 is not true then
        raise invalid_parameter_value using message =
            format('priority is %s; it must be between -32768 and 32767', coalesce(priority::text, 'null'));
    end if;
    perform outlast.check_timeout('timeout', extract(epoch from timeout));
    length_us := extract(epoch from timeout) * 1000000;
    -- A start in the past does not shorten a timeout.
    ends := greatest(insert.eligible_at, moment) + length_us * interval '1 microsecond';
    perform outlast.check_moment('end of the timeout', ends);
    if correlation_key is not null then
        perform outlast.check_scope(scope);
    end if;

    insert into outlast.instances
        (machine, machine_version, step, state, status, queue, priority, eligible_at, partition_key,
         correlation_key, correlation_scope, correlation_guard, trace, timeout_us, timeout_at,
         inserted_at, updated_at)
    values
        (insert.machine, insert.version, insert.step, insert.state::json, 'runnable', insert.queue,
         insert.priority::smallint, coalesce(insert.eligible_at, moment), insert.partition_key,
         insert.correlation_key, case when insert.correlation_key is not null then insert.scope end,
         insert.correlation_key, insert.trace, length_us, ends, moment, moment)
    on conflict (machine, correlation_guard) where correlation_guard is not null do nothing
    returning id into new_id;
    return new_id;
end
$$;

-- Starts one instance, for the drivers' adapters. Unlike outlast.insert it stores JSON unchanged
-- and returns the holder of the key. A null queue means the machine's own queue. The timeouts have
-- defaults, so that adapters of earlier builds can still call it.
create function outlast.insert_one(
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
    timeout_us      bigint default null,
    run_timeout_us  bigint default null,
    out id          bigint,
    -- The holder of an occupied correlation key; null if it released the key in the meantime.
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
-- A parameter has the name of a column. In `on conflict` the column is meant.
#variable_conflict use_column
declare
    moment   constant timestamptz := outlast.now();
    start    timestamptz;
    ends     timestamptz;
    run_ends timestamptz;
begin
    perform outlast.check_new_machine(machine, version);
    perform outlast.check_name('step', coalesce(step, ''), 200);
    queue := coalesce(queue, outlast.queue_of(machine, version));
    perform outlast.check_name('queue', coalesce(queue, ''), 200);
    perform outlast.check_stored('state', state);
    perform outlast.check_name('partition key', partition_key, 512);
    perform outlast.check_name('correlation key', correlation_key, 512);
    perform outlast.check_name('trace', trace, 512);
    -- Checked before any computation: neither addition can leave the range of a timestamptz.
    if at_us not between 0 and 253402300799000000 then
        raise invalid_parameter_value using message = 'the start is not between the years 1970 and 9999';
    end if;
    if delay_us not between 0 and 316224000000000 then
        raise invalid_parameter_value using message =
            format('start delay is %s us; it must be between 0 and ten years (316224000000000 us)', delay_us);
    end if;
    start := coalesce(timestamptz 'epoch' + at_us * interval '1 microsecond',
                      moment + delay_us * interval '1 microsecond', moment);
    perform outlast.check_timeout('timeout', timeout_us / 1000000.0);
    perform outlast.check_timeout('run timeout', run_timeout_us / 1000000.0);
    -- A start in the past does not shorten a timeout.
    ends := greatest(start, moment) + timeout_us * interval '1 microsecond';
    run_ends := greatest(start, moment) + run_timeout_us * interval '1 microsecond';
    perform outlast.check_moment('end of the timeout', greatest(ends, run_ends));
    if correlation_key is not null then
        perform outlast.check_scope(scope);
    end if;

    insert into outlast.instances as i
        (machine, machine_version, step, state, status, queue, priority, eligible_at, partition_key,
         correlation_key, correlation_scope, correlation_guard, trace, timeout_us, run_timeout_us,
         timeout_at, run_timeout_at, inserted_at, updated_at)
    values
        (insert_one.machine, insert_one.version, insert_one.step, insert_one.state, 'runnable',
         insert_one.queue, insert_one.priority, start,
         insert_one.partition_key, insert_one.correlation_key,
         case when insert_one.correlation_key is not null then insert_one.scope end,
         insert_one.correlation_key, insert_one.trace, insert_one.timeout_us, insert_one.run_timeout_us,
         ends, run_ends, moment, moment)
    on conflict (machine, correlation_guard) where correlation_guard is not null do nothing
    returning i.id into insert_one.id;
    if not found then
        select i.id into insert_one.holder
          from outlast.instances i
         where i.machine = insert_one.machine and i.correlation_guard = insert_one.correlation_key;
    end if;
end
$$;

revoke all on function outlast.check_timeout(text, numeric) from public;
revoke all on function outlast.insert(
    text, text, jsonb, integer, text, integer, timestamptz, text, text, text[], text, interval) from public;
revoke all on function outlast.insert_one(
    text, integer, text, json, text, smallint, bigint, bigint, text, text, text[], text,
    bigint, bigint) from public;

-- A function with another parameter is another function: it gets the grants of the one it replaces.
do $$
declare
    pair    record;
    granted record;
begin
    for pair in
        select *
          from (values
              ('outlast.insert(text, text, jsonb, integer, text, integer, timestamptz, text, text, text[], text)'::regprocedure,
               'outlast.insert(text, text, jsonb, integer, text, integer, timestamptz, text, text, text[], text, interval)'::regprocedure),
              ('outlast.insert_one(text, integer, text, json, text, smallint, bigint, bigint, text, text, text[], text)'::regprocedure,
               'outlast.insert_one(text, integer, text, json, text, smallint, bigint, bigint, text, text, text[], text, bigint, bigint)'::regprocedure))
            as f (old, new)
    loop
        for granted in
            select a.grantee, a.is_grantable
              from pg_proc p
             cross join aclexplode(p.proacl) a
             where p.oid = pair.old
        loop
            execute format('grant execute on function %s to %s%s', pair.new,
                           case when granted.grantee = 0 then 'public' else granted.grantee::regrole::text end,
                           case when granted.is_grantable then ' with grant option' else '' end);
        end loop;
        execute format('drop function %s', pair.old);
    end loop;
end
$$;
