-- Renames the column for the machine of an instance to `machine`, its name everywhere else.
--
-- A rename changes the catalog only: rows, indexes, constraints and plans stay. Functions are
-- stored as text, so the functions that name the columns are replaced. Their parameters keep their
-- names. Nodes of older builds use the old columns: stop them before this migration runs.

alter table outlast.instances rename column fsm to machine;
alter table outlast.instances rename column fsm_version to machine_version;
alter table outlast.runs rename column fsm to machine;
alter table outlast.runs rename column fsm_version to machine_version;

-- Starts an instance in the caller's transaction, from any language. Answers its id, or null if
-- its correlation key is occupied. A null queue means the machine's own queue.
create or replace function outlast.insert(
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
    trace           text        default null
) returns bigint
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
-- A parameter has the name of a column. In `on conflict` the column is meant.
#variable_conflict use_column
declare
    new_id bigint;
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
    if correlation_key is not null then
        perform outlast.check_scope(scope);
    end if;

    insert into outlast.instances
        (machine, machine_version, step, state, status, queue, priority, eligible_at, partition_key,
         correlation_key, correlation_scope, correlation_guard, trace, inserted_at, updated_at)
    values
        (insert.machine, insert.version, insert.step, insert.state::json, 'runnable', insert.queue,
         insert.priority::smallint, coalesce(insert.eligible_at, outlast.now()), insert.partition_key,
         insert.correlation_key, case when insert.correlation_key is not null then insert.scope end,
         insert.correlation_key, insert.trace, outlast.now(), outlast.now())
    on conflict (machine, correlation_guard) where correlation_guard is not null do nothing
    returning id into new_id;
    return new_id;
end
$$;

-- Starts one instance, for the drivers' adapters. Unlike outlast.insert it stores JSON unchanged
-- and returns the holder of the key. A null queue means the machine's own queue.
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
    moment constant timestamptz := outlast.now();
    start  timestamptz;
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
    if correlation_key is not null then
        perform outlast.check_scope(scope);
    end if;

    insert into outlast.instances as i
        (machine, machine_version, step, state, status, queue, priority, eligible_at, partition_key,
         correlation_key, correlation_scope, correlation_guard, trace, inserted_at, updated_at)
    values
        (insert_one.machine, insert_one.version, insert_one.step, insert_one.state, 'runnable',
         insert_one.queue, insert_one.priority, start,
         insert_one.partition_key, insert_one.correlation_key,
         case when insert_one.correlation_key is not null then insert_one.scope end,
         insert_one.correlation_key, insert_one.trace, moment, moment)
    on conflict (machine, correlation_guard) where correlation_guard is not null do nothing
    returning i.id into insert_one.id;
    if not found then
        select i.id into insert_one.holder
          from outlast.instances i
         where i.machine = insert_one.machine and i.correlation_guard = insert_one.correlation_key;
    end if;
end
$$;

-- Sends one signal, for the drivers' adapters. The target is an id, or a machine and a correlation
-- key. Answers 'delivered', 'duplicate', 'no_target' or 'inbox_full', and the queue of a woken
-- target.
create or replace function outlast.deliver_one(
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
    -- Callers may ask for less than the limit of outlast-core, not for more.
    room    constant bigint := least(inbox_max, 10000);
    -- The instance that received the dedup key before.
    known   bigint;
    ended   boolean;
    matches boolean;
begin
    woke := false;
    perform outlast.check_name('signal', coalesce(name, ''), 200);
    perform outlast.check_stored('payload', payload);
    perform outlast.check_name('dedup key', dedup_key, 512);
    -- Lock first, in a separate statement, then look: the protocol of commit/lock.sql and
    -- deliver/lock.sql. A park that was committed while this waited is visible. The target cannot
    -- park or finish until the caller's transaction ends.
    if target is not null then
        select i.id into instance
          from outlast.instances i
         where i.id = target
           for no key update;
    else
        -- If the holder releases the key while this waits for its lock, the row no longer matches.
        -- A later look may find the next holder.
        for attempt in 1 .. 5 loop
            select i.id into instance
              from outlast.instances i
             where i.machine = deliver_one.machine and i.correlation_guard = deliver_one.correlation_key
               for no key update;
            exit when instance is not null;
        end loop;
    end if;
    -- Checked before the target's end: a repeated signal gets the same answer after it.
    if dedup_key is not null and target is not null then
        select s.target_id into known
          from outlast.signals s
         where s.target_id = instance and s.dedup_key = deliver_one.dedup_key;
    elsif dedup_key is not null then
        select h.id into known
          from (select i.id
                  from outlast.instances i
                 where i.machine = deliver_one.machine and i.correlation_key = deliver_one.correlation_key
                 order by -i.id
                 limit 100) h
         where exists (select from outlast.signals s
                        where s.target_id = h.id and s.dedup_key = deliver_one.dedup_key
                       offset 0)
         limit 1;
    end if;
    if known is not null then
        answer := 'duplicate';
        instance := known;
        return;
    end if;
    select i.finished_at is not null,
           (i.status = 'awaiting_signal' or i.status = 'awaiting_children' and i.joining is not null)
               and deliver_one.name = any (i.awaits)
      into ended, matches
      from outlast.instances i
     where i.id = instance;
    if ended is not false then
        answer := 'no_target';
        instance := null;
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
    -- An old snapshot does not see a newer signal. Here such a caller gets a serialization
    -- failure.
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
