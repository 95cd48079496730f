-- Notifies all listeners of a channel when the transaction commits.
--
-- $1 channel  $2 message
-- locks   the server's notification queue, during the commit only
-- bound   one message
select pg_notify($1, $2)
