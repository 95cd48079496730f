-- The trace an instance belongs to, and the visit of a step.
--
-- Both columns are added without a rewrite of the table. Neither is indexed: a run-ahead commit changes
-- `entered_revision` and must stay on its page (HOT).

alter table outlast.instances
    -- A W3C traceparent, kept verbatim and handed to every claim.
    add column trace            text,
    -- The revision of the commit that brought the instance to its step; 0 where it was inserted. What
    -- runs the step again leaves it alone, so that with the id it names one visit of the step.
    add column entered_revision bigint not null default 0;

-- Starts an instance inside the caller's own transaction, from any language. Answers its id, or null
-- when its correlation key is occupied.
drop function outlast.insert(text, text, jsonb, integer, text, integer, timestamptz, text, text, text[]);

create function outlast.insert(
    machine         text,
    step            text,
    state           jsonb       default '{}',
    version         integer     default 1,
    queue           text        default 'default',
    priority        integer     default 0,
    eligible_at     timestamptz default null,
    partition_key   text        default null,
    correlation_key text        default null,
    scope           text[]      default '{runnable,executing,awaiting_signal,awaiting_children}',
    trace           text        default null
) returns bigint
language plpgsql volatile
as $$
declare
    new_id bigint;
begin
    perform outlast.check_text('machine', coalesce(machine, ''), 200);
    perform outlast.check_text('step', coalesce(step, ''), 200);
    perform outlast.check_text('queue', coalesce(queue, ''), 200);
    perform outlast.check_json('state', state);
    perform outlast.check_text('partition key', partition_key, 512);
    perform outlast.check_text('correlation key', correlation_key, 512);
    perform outlast.check_text('trace', trace, 512);
    if machine like '%/%' then
        raise invalid_parameter_value using message =
            format('machine %L contains ''/'', which separates name and version', machine);
    end if;
    if version >= 1 is not true then
        raise invalid_parameter_value using message =
            format('version is %s; versions start at 1', coalesce(version::text, 'null'));
    end if;
    if priority between -32768 and 32767 is not true then
        raise invalid_parameter_value using message =
            format('priority is %s; it must be between -32768 and 32767', coalesce(priority::text, 'null'));
    end if;
    if eligible_at not between '0001-01-01 00:00:00+00' and '9999-12-31 23:59:59+00' then
        raise invalid_parameter_value using message = 'eligible_at is not between the years 1 and 9999';
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
