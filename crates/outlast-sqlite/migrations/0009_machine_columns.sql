-- Renames `fsm` to `machine`, the word that the API, the command line and the metrics use.
--
-- A rename changes the schema only. Rows and indexes stay, and SQLite updates the definitions.
-- Processes of older builds use the old column names: stop them before this runs.

alter table instances rename column fsm to machine;
alter table instances rename column fsm_version to machine_version;
alter table runs rename column fsm to machine;
alter table runs rename column fsm_version to machine_version;
