-- Values that workflows publish, for people and programs to read.
create table outlast.views (
    instance_id bigint      not null,
    name        text        collate "C" not null,
    -- The revision of the instance that wrote this value.
    revision    bigint      not null,
    at          timestamptz not null,
    -- json and not jsonb: the text is kept as it is.
    data        json        not null,
    -- history/publish.sql, inspect/histories/views.sql, collect/collect.sql, operate/delete.sql
    primary key (instance_id, name)
);
