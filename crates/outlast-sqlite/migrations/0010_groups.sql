-- A workflow that waits for a group of children, timers and signals wakes once, when the whole
-- group is complete (docs/decisions/0047).
--
-- Workflows that are already parked keep their behaviour: the first event wakes them.

-- The revision at which a workflow parked until its whole group is complete. The value means
-- nothing at any other revision, so no statement has to clear it.
alter table instances add column needs_all_revision integer;
