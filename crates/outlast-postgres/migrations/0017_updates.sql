-- A signal can want a reply: it is an update (docs/decisions/0058).
--
-- The new columns need no rewrite, and no check that would read every row. Rows from before are
-- plain signals. An older build consumes updates as plain signals, and replies to none.

alter table outlast.signals
    -- Whether the sender waits for a reply. The dedup key is then the id of the update.
    add column wants_reply boolean not null default false,
    -- How the update was answered: 'done', 'failed' or 'rejected'; or 'ended' after an operator's
    -- retry of an instance that had ended without an answer. Null without an answer.
    add column reply_kind  text,
    -- json and not jsonb: the text is kept as it is.
    add column reply       json,
    add column replied_at  timestamptz;

-- Sends one signal, for the drivers' adapters. The target is an id, or a machine and a correlation
-- key. An update wants a reply, and its dedup key is its id. Answers 'delivered', 'duplicate',
-- 'no_target' or 'inbox_full', and the queue of a woken target.
create function outlast.deliver_one(
    target          bigint,
    machine         text,
    correlation_key text,
    name            text,
    payload         json,
    dedup_key       text,
    inbox_max       bigint,
    -- Calls of an older build do not give it.
    wants_reply     boolean default false,
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
    if wants_reply and dedup_key is null then
        raise invalid_parameter_value using message =
            'update has no id, under which its reply could be found';
    end if;
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

    insert into outlast.signals as s (target_id, name, payload, dedup_key, inserted_at, wants_reply)
    values (instance, deliver_one.name, deliver_one.payload, deliver_one.dedup_key, outlast.now(),
            coalesce(deliver_one.wants_reply, false))
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

-- Sends an update in the caller's transaction, from any language: a signal that wants a reply.
-- Answers 'delivered', 'duplicate', 'no_target' or 'inbox_full'. The function reply returns what
-- became of it.
create function outlast.update(
    target    bigint,
    name      text,
    payload   jsonb,
    update_id text
) returns text
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if target is null then
        raise invalid_parameter_value using message = 'target is null; it is the id of an instance';
    end if;
    return (outlast.deliver_one(target, null, null, name, payload::json, update_id, 10000, true)).answer;
end
$$;

-- Sends an update to the holder of a correlation key. A known id is a duplicate even if no instance
-- holds the key any more.
create function outlast.update(
    machine         text,
    correlation_key text,
    name            text,
    payload         jsonb,
    update_id       text
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
    return (outlast.deliver_one(null, machine, correlation_key, name, payload::json, update_id, 10000, true)).answer;
end
$$;

-- Returns what became of an update. The state is 'pending', 'replied' or 'ended', or null if there
-- is no such update. A reply has a kind: 'done', 'failed' or 'rejected'. An instance that ended
-- first has answered nothing.
create function outlast.reply(
    target     bigint,
    update_id  text,
    out state  text,
    out kind   text,
    out reply  json,
    out name   text,
    out at     timestamptz,
    -- The id of its signal.
    out signal bigint
)
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
    select case when s.reply_kind <> 'ended' then 'replied'
                when s.reply_kind is null and i.finished_at is null then 'pending'
                else 'ended' end,
           nullif(s.reply_kind, 'ended'), s.reply, s.name, s.replied_at, s.id
      into state, kind, reply, name, at, signal
      from outlast.instances i
     cross join lateral (
           select u.id, u.name, u.reply_kind, u.reply, u.replied_at
             from outlast.signals u
            where u.target_id = i.id and u.dedup_key = update_id and u.wants_reply
           offset 0) s
     where i.id = target;
end
$$;

-- Returns what became of an update to the holder of a correlation key, or to a former holder.
create function outlast.reply(
    machine         text,
    correlation_key text,
    update_id       text,
    out state       text,
    out kind        text,
    out reply       json,
    out name        text,
    out at          timestamptz,
    out signal      bigint
)
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    found_in bigint;
begin
    select h.id into found_in
      from (select i.id
              from outlast.instances i
             where i.machine = reply.machine and i.correlation_key = reply.correlation_key
             order by -i.id
             limit 100) h
     where exists (select from outlast.signals s
                    where s.target_id = h.id and s.dedup_key = update_id and s.wants_reply
                   offset 0)
     limit 1;
    select r.state, r.kind, r.reply, r.name, r.at, r.signal
      into state, kind, reply, name, at, signal
      from outlast.reply(found_in, update_id) r;
end
$$;

-- A new function may be called by everybody, unless that is taken back.
revoke all on function outlast.update(bigint, text, jsonb, text) from public;
revoke all on function outlast.update(text, text, text, jsonb, text) from public;
revoke all on function outlast.reply(bigint, text) from public;
revoke all on function outlast.reply(text, text, text) from public;
revoke all on function outlast.deliver_one(bigint, text, text, text, json, text, bigint, boolean) from public;

-- A function with another parameter is another function: it gets the grants of the one it replaces.
-- An older build calls it without the new parameter.
do $$
declare
    old     constant regprocedure := 'outlast.deliver_one(bigint, text, text, text, json, text, bigint)';
    new     constant regprocedure := 'outlast.deliver_one(bigint, text, text, text, json, text, bigint, boolean)';
    granted record;
begin
    for granted in
        select a.grantee, a.is_grantable
          from pg_proc p
         cross join aclexplode(p.proacl) a
         where p.oid = old
    loop
        execute format('grant execute on function %s to %s%s', new,
                       case when granted.grantee = 0 then 'public' else granted.grantee::regrole::text end,
                       case when granted.is_grantable then ' with grant option' else '' end);
    end loop;
    execute format('drop function %s', old);
end
$$;
