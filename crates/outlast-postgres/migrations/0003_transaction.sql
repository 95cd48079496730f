-- Starting and signalling one instance inside the caller's own transaction, for the drivers' adapters.
--
-- They answer all that the store's verbs answer, and keep JSON to the letter. What comes in here was held to
-- outlast-core's limits by the adapter; people who write SQL use outlast.insert and outlast.signal, which
-- check it themselves.
--
-- The caller's settings are not ours, so the functions bring those that keep their plans whatever the
-- statistics say (docs/decisions/0006).

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
    out id          bigint,
    -- Who holds the correlation key when it is occupied; null when the holder let go meanwhile.
    out holder      bigint
)
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
    insert into outlast.instances as i
        (fsm, fsm_version, step, state, status, queue, priority, eligible_at, partition_key,
         correlation_key, correlation_scope, correlation_guard, trace, inserted_at, updated_at)
    values
        (insert_one.machine, insert_one.version, insert_one.step, insert_one.state, 'runnable',
         insert_one.queue, insert_one.priority,
         coalesce(timestamptz 'epoch' + at_us * interval '1 microsecond',
                  outlast.now() + delay_us * interval '1 microsecond'),
         insert_one.partition_key, insert_one.correlation_key, insert_one.scope,
         insert_one.correlation_key, insert_one.trace, outlast.now(), outlast.now())
    on conflict (fsm, correlation_guard) where correlation_guard is not null do nothing
    returning i.id into insert_one.id;
    if not found then
        select i.id into insert_one.holder
          from outlast.instances i
         where i.fsm = insert_one.machine and i.correlation_guard = insert_one.correlation_key;
    end if;
end
$$;

-- The target is an id, or a machine and a correlation key. Answers 'delivered', 'duplicate', 'no_target' or
-- 'inbox_full'.
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
    out woke        boolean
)
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    ended   boolean;
    matches boolean;
begin
    woke := false;
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
                               limit inbox_max) as unconsumed) >= inbox_max then
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
         where i.id = instance;
        woke := true;
    end if;
end
$$;
