-- Triggers that record every change of an instance, a history, a signal or a worker, in the
-- transaction that makes it. So every row in here was committed, and the order is right for any
-- two changes that exclude each other.

create schema torture;

create table torture.audit (
    seq  bigint generated always as identity primary key,
    at   bigint not null default (extract(epoch from clock_timestamp()) * 1000000)::bigint,
    kind text   not null,
    body text   not null
);

create function torture.us(moment timestamptz) returns bigint
language sql immutable
as $$ select (extract(epoch from moment) * 1000000)::bigint $$;

create function torture.instance_changed() returns trigger
language plpgsql
as $$
declare
    row outlast.instances := case when tg_op = 'DELETE' then old else new end;
begin
    insert into torture.audit (kind, body) values ('instance', json_build_object(
        'op', lower(tg_op), 'id', row.id, 'machine', row.machine, 'status', row.status, 'revision', row.revision,
        'step', row.step, 'visit', row.entered_revision, 'attempt', row.attempt, 'crashes', row.crashes,
        'round', row.round, 'pending', row.children_pending, 'locked_by', row.locked_by,
        'eligible_at', torture.us(row.eligible_at), 'deadline', torture.us(row.await_deadline),
        'partition_key', row.partition_key, 'guard', row.correlation_guard,
        'parent', row.parent_id, 'parent_round', row.parent_round, 'position', row.parent_position,
        'policy', row.on_parent_close, 'held', row.held, 'needs', row.join_needs, 'fails_fast', row.join_fails_fast,
        'window', row.join_window, 'started', row.children_started, 'failed', row.children_failed,
        'first_failure', row.first_failure, 'joined', row.joined,
        'cancelled', row.cancel_requested_at is not null, 'answered', row.cancel_answered, 'result', row.result::text,
        'error', left(row.last_error, 200), 'run', row.run, 'events', row.events,
        'timeout_at', torture.us(row.timeout_at), 'run_timeout_at', torture.us(row.run_timeout_at),
        'state', case when tg_op = 'INSERT' then left(row.state::text, 1000) end)::text);
    return null;
end
$$;

create trigger audited after insert or update or delete on outlast.instances
    for each row execute function torture.instance_changed();

create function torture.event_changed() returns trigger
language plpgsql
as $$
declare
    row outlast.events := case when tg_op = 'DELETE' then old else new end;
begin
    insert into torture.audit (kind, body) values ('event', json_build_object(
        'op', lower(tg_op), 'instance', row.instance_id, 'run', row.run, 'seq', row.seq, 'at', torture.us(row.at),
        'kind', row.kind, 'call', row.call, 'name', row.name, 'data', row.data)::text);
    return null;
end
$$;

create trigger audited after insert or update or delete on outlast.events
    for each row execute function torture.event_changed();

create function torture.signal_changed() returns trigger
language plpgsql
as $$
declare
    row outlast.signals := case when tg_op = 'DELETE' then old else new end;
begin
    insert into torture.audit (kind, body) values ('signal', json_build_object(
        'op', lower(tg_op), 'id', row.id, 'target', row.target_id, 'name', row.name,
        'dedup', row.dedup_key, 'consumed', row.consumed_at is not null,
        'wants_reply', row.wants_reply, 'reply_kind', row.reply_kind, 'reply', row.reply)::text);
    return null;
end
$$;

create trigger audited after insert or update or delete on outlast.signals
    for each row execute function torture.signal_changed();

create function torture.worker_changed() returns trigger
language plpgsql
as $$
begin
    insert into torture.audit (kind, body)
    values ('worker', json_build_object('id', new.id, 'name', new.name)::text);
    return null;
end
$$;

create trigger audited after insert on outlast.workers
    for each row execute function torture.worker_changed();
