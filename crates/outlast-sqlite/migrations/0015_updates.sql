-- A signal can want a reply: it is an update (docs/decisions/0058).
--
-- Rows from before are plain signals. There is no check, which would read every row.

-- Whether the sender waits for a reply. The dedup key is then the id of the update.
alter table signals add column wants_reply integer not null default 0;

-- How the update was answered: 'done', 'failed' or 'rejected'; or 'ended' after an operator's
-- retry of an instance that had ended without an answer. Null without an answer.
alter table signals add column reply_kind text;

-- The reply, and when it was written.
alter table signals add column reply text;
alter table signals add column replied_at integer;
