-- Values that workflows publish, for people and programs to read.
create table views (
    instance_id integer not null,
    name        text    not null,
    -- The revision of the instance that wrote this value.
    revision    integer not null,
    at          integer not null,
    data        text    not null check (json_valid(data)),
    -- history/publish, inspect/histories/views, collect/remove_views
    primary key (instance_id, name)
) strict, without rowid;
