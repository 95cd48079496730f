-- The tables that tests of interleavings add to those of the store: the writes of each session,
-- and the state that every schedule starts from.

create table outlast.history (
    place        bigint generated always as identity,
    session      integer not null,
    txid         bigint  not null,
    instance_id  bigint  not null,
    was_status   text,
    was_revision bigint,
    status       text,
    revision     bigint
);

-- The application name '<anything>.<number>' identifies a session. Other connections are not
-- recorded.
create function outlast.remember() returns trigger
language plpgsql
as $$
begin
    if old.status is distinct from new.status or old.revision is distinct from new.revision then
        insert into outlast.history (session, txid, instance_id, was_status, was_revision, status, revision)
        values (split_part(current_setting('application_name'), '.', 2)::integer, txid_current(),
                coalesce(new.id, old.id), old.status, old.revision, new.status, new.revision);
    end if;
    return null;
end
$$;

create trigger remember after insert or update or delete on outlast.instances
   for each row when (current_setting('application_name') like '%.%')
   execute function outlast.remember();

create table outlast.start_instances as table outlast.instances;
create table outlast.start_signals   as table outlast.signals;
create table outlast.start_workers   as table outlast.workers;
create table outlast.start_cascades  as table outlast.cascades;

create function outlast.clear() returns void
language sql
as $$
    delete from outlast.history;
    delete from outlast.instances;
    delete from outlast.signals;
    delete from outlast.workers;
    delete from outlast.operations;
    delete from outlast.cascades;
    -- No schedule starts with events.
    delete from outlast.events;
$$;

create function outlast.keep_start() returns void
language sql
as $$
    delete from outlast.start_instances;
    delete from outlast.start_signals;
    delete from outlast.start_workers;
    delete from outlast.start_cascades;
    insert into outlast.start_instances select * from outlast.instances;
    insert into outlast.start_signals   select * from outlast.signals;
    insert into outlast.start_workers   select * from outlast.workers;
    insert into outlast.start_cascades  select * from outlast.cascades;
$$;

-- Ids start at the same values each time, so that schedules with the same end have the same text.
create function outlast.restore_start() returns void
language plpgsql
as $$
begin
    perform outlast.clear();
    insert into outlast.instances select * from outlast.start_instances;
    insert into outlast.signals   select * from outlast.start_signals;
    insert into outlast.workers   select * from outlast.start_workers;
    insert into outlast.cascades  select * from outlast.start_cascades;
    perform setval('outlast.instances_id_seq', (select coalesce(max(i.id), 0) + 1 from outlast.start_instances i));
    perform setval('outlast.signals_id_seq',   (select coalesce(max(s.id), 0) + 1 from outlast.start_signals s));
    perform setval('outlast.cascades_id_seq',  (select coalesce(max(c.id), 0) + 1 from outlast.start_cascades c));
end
$$;
