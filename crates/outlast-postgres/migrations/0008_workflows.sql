-- Workflows: an instance with a history, whose waits are one park.
--
--   instances   which run it is in, how long that run's history is, and which rounds it waits for
--   events      the histories
--
-- The columns cost no rewriting: each is null or a constant in the rows that there are. None is indexed, so that a commit
-- that keeps its claim stays on its page (HOT).

alter table outlast.instances
    -- Counted from 1; another one begins when a workflow is renewed.
    add column run     integer not null default 1,
    -- How many events the history of that run has.
    add column events  integer not null default 0,
    -- The rounds that a workflow waits for, or last waited for; null for machines, and for a workflow that has started
    -- no children.
    add column joining integer[];

-- What workflows asked for and what came of it. Written with the row that it explains, never changed, and removed with
-- the instance, or when its run is too old.
create table outlast.events (
    instance_id bigint      not null,
    run         integer     not null,
    -- Counted from 1 in each run, without gaps.
    seq         integer     not null,
    at          timestamptz not null,
    kind        text        collate "C" not null,
    -- The call of the workflow that it belongs to.
    call        integer,
    name        text        not null,
    -- json and not jsonb: kept to the letter.
    data        json        not null,
    -- inspect/histories/history.sql, inspect/histories/histories.sql; commit/continue_as_new.sql,
    -- collect/collect.sql, operate/delete.sql
    primary key (instance_id, run, seq)
);

-- A signal wakes a workflow that waits for children too, when it waits for the signal as well.

-- Sends one signal, for the drivers' adapters. The target is an id, or a machine and a correlation key. Answers
-- 'delivered', 'duplicate', 'no_target' or 'inbox_full', and for what it woke the queue where it can be claimed.
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

-- Sends a signal inside the caller's own transaction, from any language. Answers 'delivered',
-- 'duplicate', 'no_target' or 'inbox_full'.
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
declare
    instance outlast.instances%rowtype;
begin
    if target is null then
        raise invalid_parameter_value using message = 'target is null; it is the id of an instance';
    end if;
    perform outlast.check_text('signal', coalesce(name, ''), 200);
    perform outlast.check_json('payload', payload);
    perform outlast.check_text('dedup key', dedup_key, 512);

    -- Lock first, look after: the same two-sided protocol as commit/lock.sql and deliver/lock.sql.
    perform from outlast.instances i where i.id = target for no key update;
    select * into instance from outlast.instances i where i.id = target;
    if instance.id is null or instance.finished_at is not null then
        return 'no_target';
    end if;
    if exists (select from outlast.signals s
                where s.target_id = target and s.dedup_key = signal.dedup_key) then
        return 'duplicate';
    end if;
    if (select count(*) from outlast.signals s
         where s.target_id = target and s.consumed_at is null) >= 10000 then
        return 'inbox_full';
    end if;

    insert into outlast.signals (target_id, name, payload, dedup_key, inserted_at)
    values (target, signal.name, signal.payload::json, signal.dedup_key, outlast.now())
    -- A caller with an old snapshot does not see a signal that came since; here it fails to serialise.
    on conflict do nothing;
    if not found then
        return 'duplicate';
    end if;
    if (instance.status = 'awaiting_signal'
        or instance.status = 'awaiting_children' and instance.joining is not null)
       and signal.name = any (instance.awaits) then
        update outlast.instances i
           set status = 'runnable',
               eligible_at = outlast.now(),
               await_deadline = null,
               correlation_guard = case when 'runnable' = any (i.correlation_scope) then i.correlation_guard end,
               updated_at = outlast.now()
         where i.id = target;
    end if;
    return 'delivered';
end
$$;
