-- Triggers that record every change of an instance, a history, a signal or a worker, in the
-- transaction that makes it. So every row in here was committed, in this order.

create table torture_audit (
    seq  integer primary key autoincrement,
    at   integer not null default (cast(unixepoch('subsec') * 1000000 as integer)),
    kind text    not null,
    body text    not null
);

create trigger torture_instance_insert after insert on instances begin
    insert into torture_audit (kind, body) values ('instance', json_object(
        'op', 'insert', 'id', new.id, 'machine', new.machine, 'status', new.status, 'revision', new.revision,
        'step', new.step, 'visit', new.entered_revision, 'attempt', new.attempt, 'crashes', new.crashes,
        'round', new.round, 'pending', new.children_pending, 'locked_by', new.locked_by,
        'eligible_at', new.eligible_at, 'deadline', new.await_deadline,
        'partition_key', new.partition_key, 'guard', new.correlation_guard,
        'parent', new.parent_id, 'parent_round', new.parent_round, 'position', new.parent_position,
        'policy', new.on_parent_close, 'held', json(iif(new.held, 'true', iif(new.held is null, 'null', 'false'))),
        'needs', new.join_needs, 'fails_fast', json(iif(new.join_fails_fast, 'true', 'false')),
        'window', new.join_window, 'started', new.children_started, 'failed', new.children_failed,
        'first_failure', new.first_failure, 'joined', new.joined,
        'cancelled', json(iif(new.cancel_requested_at is not null, 'true', 'false')),
        'answered', json(iif(new.cancel_answered, 'true', 'false')), 'result', new.result,
        'error', substr(new.last_error, 1, 200), 'run', new.run, 'events', new.events,
        'timeout_at', new.timeout_at, 'run_timeout_at', new.run_timeout_at, 'state', substr(new.state, 1, 1000)));
end;

create trigger torture_instance_update after update on instances begin
    insert into torture_audit (kind, body) values ('instance', json_object(
        'op', 'update', 'id', new.id, 'machine', new.machine, 'status', new.status, 'revision', new.revision,
        'step', new.step, 'visit', new.entered_revision, 'attempt', new.attempt, 'crashes', new.crashes,
        'round', new.round, 'pending', new.children_pending, 'locked_by', new.locked_by,
        'eligible_at', new.eligible_at, 'deadline', new.await_deadline,
        'partition_key', new.partition_key, 'guard', new.correlation_guard,
        'parent', new.parent_id, 'parent_round', new.parent_round, 'position', new.parent_position,
        'policy', new.on_parent_close, 'held', json(iif(new.held, 'true', iif(new.held is null, 'null', 'false'))),
        'needs', new.join_needs, 'fails_fast', json(iif(new.join_fails_fast, 'true', 'false')),
        'window', new.join_window, 'started', new.children_started, 'failed', new.children_failed,
        'first_failure', new.first_failure, 'joined', new.joined,
        'cancelled', json(iif(new.cancel_requested_at is not null, 'true', 'false')),
        'answered', json(iif(new.cancel_answered, 'true', 'false')), 'result', new.result,
        'error', substr(new.last_error, 1, 200), 'run', new.run, 'events', new.events,
        'timeout_at', new.timeout_at, 'run_timeout_at', new.run_timeout_at, 'state', null));
end;

create trigger torture_instance_delete after delete on instances begin
    insert into torture_audit (kind, body) values ('instance', json_object(
        'op', 'delete', 'id', old.id, 'machine', old.machine, 'status', old.status, 'revision', old.revision,
        'step', old.step, 'visit', old.entered_revision, 'attempt', old.attempt, 'crashes', old.crashes,
        'round', old.round, 'pending', old.children_pending, 'locked_by', old.locked_by,
        'eligible_at', old.eligible_at, 'deadline', old.await_deadline,
        'partition_key', old.partition_key, 'guard', old.correlation_guard,
        'parent', old.parent_id, 'parent_round', old.parent_round, 'position', old.parent_position,
        'policy', old.on_parent_close, 'held', json(iif(old.held, 'true', iif(old.held is null, 'null', 'false'))),
        'needs', old.join_needs, 'fails_fast', json(iif(old.join_fails_fast, 'true', 'false')),
        'window', old.join_window, 'started', old.children_started, 'failed', old.children_failed,
        'first_failure', old.first_failure, 'joined', old.joined,
        'cancelled', json(iif(old.cancel_requested_at is not null, 'true', 'false')),
        'answered', json(iif(old.cancel_answered, 'true', 'false')), 'result', old.result,
        'error', substr(old.last_error, 1, 200), 'run', old.run, 'events', old.events,
        'timeout_at', old.timeout_at, 'run_timeout_at', old.run_timeout_at, 'state', null));
end;

create trigger torture_event_insert after insert on events begin
    insert into torture_audit (kind, body) values ('event', json_object(
        'op', 'insert', 'instance', new.instance_id, 'run', new.run, 'seq', new.seq, 'at', new.at, 'kind', new.kind,
        'call', new.call, 'name', new.name, 'data', json(new.data)));
end;

create trigger torture_event_update after update on events begin
    insert into torture_audit (kind, body) values ('event', json_object(
        'op', 'update', 'instance', new.instance_id, 'run', new.run, 'seq', new.seq, 'at', new.at, 'kind', new.kind,
        'call', new.call, 'name', new.name, 'data', json(new.data)));
end;

create trigger torture_event_delete after delete on events begin
    insert into torture_audit (kind, body) values ('event', json_object(
        'op', 'delete', 'instance', old.instance_id, 'run', old.run, 'seq', old.seq, 'at', old.at, 'kind', old.kind,
        'call', old.call, 'name', old.name, 'data', json(old.data)));
end;

create trigger torture_signal_insert after insert on signals begin
    insert into torture_audit (kind, body) values ('signal', json_object(
        'op', 'insert', 'id', new.id, 'target', new.target_id, 'name', new.name, 'dedup', new.dedup_key,
        'consumed', json(iif(new.consumed_at is not null, 'true', 'false')),
        'wants_reply', json(iif(new.wants_reply, 'true', 'false')), 'reply_kind', new.reply_kind,
        'reply', json(new.reply)));
end;

create trigger torture_signal_update after update on signals begin
    insert into torture_audit (kind, body) values ('signal', json_object(
        'op', 'update', 'id', new.id, 'target', new.target_id, 'name', new.name, 'dedup', new.dedup_key,
        'consumed', json(iif(new.consumed_at is not null, 'true', 'false')),
        'wants_reply', json(iif(new.wants_reply, 'true', 'false')), 'reply_kind', new.reply_kind,
        'reply', json(new.reply)));
end;

create trigger torture_signal_delete after delete on signals begin
    insert into torture_audit (kind, body) values ('signal', json_object(
        'op', 'delete', 'id', old.id, 'target', old.target_id, 'name', old.name, 'dedup', old.dedup_key,
        'consumed', json(iif(old.consumed_at is not null, 'true', 'false')),
        'wants_reply', json(iif(old.wants_reply, 'true', 'false')), 'reply_kind', old.reply_kind,
        'reply', json(old.reply)));
end;

create trigger torture_worker_insert after insert on workers begin
    insert into torture_audit (kind, body) values ('worker', json_object('id', new.id, 'name', new.name));
end;
