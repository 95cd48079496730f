-- Checks whether the inbox has a signal of one of these names that the step did not receive
-- (docs/protocol.md, defect 11).
-- Parameters: 1 id, 2 names (JSON), 3 received ids (JSON).
-- Index: signals_target.
-- Bound: the inbox.
select 1
from signals
where consumed_at is null
  and target_id = ?1
  and name in (select value from json_each(?2))
  and id not in (select value from json_each(?3))
limit 1
