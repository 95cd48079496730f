-- A step that runs ahead sees the signals that came since its claim (docs/decisions/0051).
--
-- The new column needs no rewrite and has no index. An older build neither writes nor reads it:
-- its steps keep the inbox of their claim, and signals that it delivers are seen at the next claim.

alter table outlast.instances
    -- The latest signal that was delivered while the row executed, since its claim. A commit that
    -- keeps the claim returns it. It says nothing about a row that does not execute.
    add column latest_signal bigint;

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
    runs    boolean;
    matches boolean;
    -- For a target that needs all: the names it still awaits after this signal, and whether
    -- children or a deadline are missing too.
    awaited text[];
    lacks   boolean;
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
    select i.finished_at is not null, i.status = 'executing',
           (i.status = 'awaiting_signal' or i.status = 'awaiting_children' and i.joining is not null)
               and deliver_one.name = any (i.awaits),
           case when i.needs_all_revision = i.revision then array_remove(i.awaits, deliver_one.name) end,
           i.status = 'awaiting_children' or (i.await_deadline > outlast.now()) is true
      into ended, runs, matches, awaited, lacks
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
    if matches and awaited is not null and (lacks or cardinality(awaited) > 0) then
        update outlast.instances i
           set awaits = awaited,
               updated_at = outlast.now()
         where i.id = instance;
    elsif matches then
        update outlast.instances i
           set status = 'runnable',
               eligible_at = outlast.now(),
               awaits = coalesce(awaited, i.awaits),
               await_deadline = null,
               updated_at = outlast.now()
         where i.id = instance
        returning i.queue into deliver_one.queue;
        woke := true;
    elsif runs then
        -- For the commit of the step that runs. An id is given under this lock, so it is the
        -- highest. No indexed column changes (HOT).
        update outlast.instances i
           set latest_signal = deliver_one.id
         where i.id = instance;
    end if;
end
$$;
