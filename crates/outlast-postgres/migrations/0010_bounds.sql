-- Bounds that hold whatever a caller sends, and keys that find an instance after its end.

-- The clock is the server's. A function with the rights of the schema's owner must not read a
-- setting that its caller can change. A store with a test clock puts its time into its own
-- statements.
create or replace function outlast.now() returns timestamptz
language sql stable parallel safe
as $$
    select statement_timestamp()
$$;

-- The limits of outlast-core. Values that are only looked up pass check_text, so that names stored
-- by older versions are still found. Values that are stored pass check_name.

-- An E literal means the same under any setting of standard_conforming_strings.
create or replace function outlast.check_text(what text, value text, bytes_max integer) returns void
language plpgsql immutable
as $$
begin
    if value = '' then
        raise invalid_parameter_value using message = format('%s is empty', what);
    end if;
    if octet_length(value) > bytes_max then
        raise invalid_parameter_value using message =
            format('%s has %s bytes; at most %s are allowed', what, octet_length(value), bytes_max);
    end if;
    if value ~ E'[\\u0001-\\u001f\\u007f-\\u009f]' then
        raise invalid_parameter_value using message =
            format('%s contains a control character, which cannot be stored', what);
    end if;
end
$$;

-- The ranges are those of outlast-core's text.rs: Cf, Zl and Zp. ASCII has none of them.
create function outlast.check_name(what text, value text, bytes_max integer) returns void
language plpgsql immutable
as $$
begin
    perform outlast.check_text(what, value, bytes_max);
    if octet_length(value) > length(value) and value ~
        (E'[\\u00ad\\u0600-\\u0605\\u061c\\u06dd\\u070f\\u0890-\\u0891\\u08e2\\u180e\\u200b-\\u200f\\u2028-\\u202e'
         || E'\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb\\U000110bd\\U000110cd\\U00013430-\\U0001343f'
         || E'\\U0001bca0-\\U0001bca3\\U0001d173-\\U0001d17a\\U000e0001\\U000e0020-\\U000e007f]') then
        raise invalid_parameter_value using message =
            format('%s contains a format character, which does not show', what);
    end if;
end
$$;

create function outlast.check_new_machine(machine text, version integer) returns void
language plpgsql immutable
as $$
begin
    perform outlast.check_machine(machine, version);
    perform outlast.check_name('machine', machine, 200);
end
$$;

create function outlast.check_moment(what text, value timestamptz) returns void
language plpgsql immutable
as $$
begin
    if value not between '1970-01-01 00:00:00+00' and '9999-12-31 23:59:59+00' then
        raise invalid_parameter_value using message = format('%s is not between the years 1970 and 9999', what);
    end if;
end
$$;

create or replace function outlast.check_scope(scope text[]) returns void
language plpgsql immutable
as $$
begin
    -- Checked first, because the messages below quote it.
    if cardinality(scope) > 7 then
        raise invalid_parameter_value using message =
            format('correlation scope has %s entries; there are 7 statuses', cardinality(scope));
    end if;
    if 'runnable' = any (scope) is not true then
        raise invalid_parameter_value using message =
            'correlation scope must contain runnable: a key is held from the start or not at all';
    end if;
    if array_ndims(scope) <> 1 then
        raise invalid_parameter_value using message =
            format('correlation scope %s is not a plain list of statuses', scope);
    end if;
    if scope <@ array['runnable', 'executing', 'awaiting_signal', 'awaiting_children',
                      'done', 'failed', 'cancelled'] is not true then
        raise invalid_parameter_value using message = format('correlation scope %s has an unknown status', scope);
    end if;
end
$$;

-- A jsonb value is stored as its own text.
create or replace function outlast.check_json(what text, value jsonb) returns void
language plpgsql immutable
as $$
begin
    if value is null then
        raise invalid_parameter_value using message = format('%s is null; JSON null is written ''null''', what);
    end if;
    perform outlast.check_json_bytes(what, octet_length(value::text), 1048576);
    perform outlast.check_json_depth(what, value);
end
$$;

-- A json value is stored unchanged, including spaces and repeated members. Its size is checked
-- before it is parsed. A codec's output may be larger than its input.
create function outlast.check_stored(what text, value json) returns void
language plpgsql immutable
as $$
declare
    stored    constant text := value::text;
    bytes_max constant integer :=
        case when starts_with(stored, '{"outlast:encoded":"') then 2097152 else 1048576 end;
begin
    if value is null then
        raise invalid_parameter_value using message = format('%s is null; JSON null is written ''null''', what);
    end if;
    perform outlast.check_json_bytes(what, octet_length(stored), bytes_max);
    perform outlast.check_json_depth(what, stored::jsonb);
end
$$;

create function outlast.check_json_bytes(what text, bytes integer, bytes_max integer) returns void
language plpgsql immutable
as $$
begin
    if bytes > bytes_max then
        raise invalid_parameter_value using message =
            format('%s has %s bytes; at most %s are stored', what, bytes, bytes_max);
    end if;
end
$$;

create function outlast.check_json_depth(what text, value jsonb) returns void
language plpgsql immutable
as $$
begin
    -- A value inside n arrays is at level n, so an array at level 100 is the 101st.
    if jsonb_path_exists(value, 'strict $.**{100 to last} ? (@.type() == "array" || @.type() == "object")') then
        raise invalid_parameter_value using message = format('%s is nested more than 100 levels deep', what);
    end if;
end
$$;

-- Keys of instances that no longer hold them.

-- deliver/deliver.sql, inspect/instances/find.sql: the latest instances that hold or held a
-- correlation key. No outcome changes these columns, so commits stay on their page (HOT). The
-- column is `-id`, because the primary key must not give the same order (docs/decisions/0006).
create index instances_keys on outlast.instances (fsm, correlation_key, (-id))
    where correlation_key is not null;

-- The queue of an instance that names none.

-- Returns the machine's own queue from the worker that registered last; else 'default'. The rule
-- is that of MachineOffer::among in outlast-core.
create function outlast.queue_of(machine text, version integer) returns text
language sql stable
as $$
    select coalesce(
        (select o.offer ->> 'queue'
           from outlast.workers w
          cross join lateral json_array_elements(w.machines) as o (offer)
          where o.offer ->> 'name' = queue_of.machine
            and (o.offer ->> 'version')::integer = queue_of.version
          order by w.id desc
          limit 1),
        'default')
$$;

revoke all on function outlast.queue_of(text, integer) from public;

-- The functions that store a caller's values, with these checks.

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
        (fsm, fsm_version, step, state, status, queue, priority, eligible_at, partition_key,
         correlation_key, correlation_scope, correlation_guard, trace, inserted_at, updated_at)
    values
        (insert.machine, insert.version, insert.step, insert.state::json, 'runnable', insert.queue,
         insert.priority::smallint, coalesce(insert.eligible_at, outlast.now()), insert.partition_key,
         insert.correlation_key, case when insert.correlation_key is not null then insert.scope end,
         insert.correlation_key, insert.trace, outlast.now(), outlast.now())
    on conflict (fsm, correlation_guard) where correlation_guard is not null do nothing
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
             where i.fsm = deliver_one.machine and i.correlation_guard = deliver_one.correlation_key
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
                 where i.fsm = deliver_one.machine and i.correlation_key = deliver_one.correlation_key
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

-- Sends a signal in the caller's transaction, from any language. Answers 'delivered', 'duplicate',
-- 'no_target' or 'inbox_full'.
create or replace function outlast.signal(
    target    bigint,
    name      text,
    payload   jsonb default 'null',
    dedup_key text  default null
) returns text
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if target is null then
        raise invalid_parameter_value using message = 'target is null; it is the id of an instance';
    end if;
    return (outlast.deliver_one(target, null, null, name, payload::json, dedup_key, 10000)).answer;
end
$$;

-- Sends a signal to the holder of a correlation key. A known dedup key is a duplicate even if no
-- instance holds the key any more.
create or replace function outlast.signal(
    machine         text,
    correlation_key text,
    name            text,
    payload         jsonb default 'null',
    dedup_key       text  default null
) returns text
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform outlast.check_text('machine', coalesce(machine, ''), 200);
    perform outlast.check_text('correlation key', correlation_key, 512);
    if correlation_key is null then
        raise invalid_parameter_value using message = 'correlation key is null; it is the address of an instance';
    end if;
    return (outlast.deliver_one(null, machine, correlation_key, name, payload::json, dedup_key, 10000)).answer;
end
$$;

-- Checks the size of the text before it is parsed.
create or replace function outlast.signal(
    machine         text,
    correlation_key text,
    name            text,
    payload         text,
    dedup_key       text default null
) returns text
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform outlast.check_json_bytes('payload', octet_length(payload), 1048576);
    return outlast.signal(machine, correlation_key, name, payload::jsonb, dedup_key);
end
$$;

-- How many of the consecutive crashes count towards crashes_max. Only `reap` reads and writes it.
-- An outcome resets `crashes` only, and `reap` ignores this count while `crashes` is 0.
alter table outlast.instances add column crashes_counted integer not null default 0;

revoke all on function outlast.check_name(text, text, integer) from public;
revoke all on function outlast.check_new_machine(text, integer) from public;
revoke all on function outlast.check_moment(text, timestamptz) from public;
revoke all on function outlast.check_stored(text, json) from public;
revoke all on function outlast.check_json_bytes(text, integer, integer) from public;
revoke all on function outlast.check_json_depth(text, jsonb) from public;
