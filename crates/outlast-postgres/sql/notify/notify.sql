-- Tells everybody who listens on a channel, when the transaction commits.
--
-- $1 channel  $2 message
-- locks   the server's queue of notifications, for the commit alone   bound one message
select pg_notify($1, $2)
