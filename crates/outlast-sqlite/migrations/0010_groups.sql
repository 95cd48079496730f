-- A workflow that waits for a group of children, timers and signals is woken once, when all of it
-- is there (docs/decisions/0047).
--
-- Whoever waits already is woken by whatever comes first, as before.

-- The revision at which a workflow parked that needs all of what it waits for. It says nothing of
-- any other revision, so that nobody has to clear it.
alter table instances add column needs_all_revision integer;
