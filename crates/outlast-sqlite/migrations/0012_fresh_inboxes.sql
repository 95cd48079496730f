-- A step that runs ahead sees the signals that came since its claim (docs/decisions/0051).

-- The latest signal that was delivered while the instance executed, since its claim. A commit that
-- keeps the claim returns it. The value means nothing on a row that does not execute.
alter table instances add column latest_signal integer;
