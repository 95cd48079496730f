-- The machine of an instance is called machine, as everywhere else.
--
-- Renaming a column changes the schema only: rows and indexes stay, and their definitions follow.
-- Processes of older builds name the old columns: stop them before this runs.

alter table instances rename column fsm to machine;
alter table instances rename column fsm_version to machine_version;
alter table runs rename column fsm to machine;
alter table runs rename column fsm_version to machine_version;
