//! Instances that wait for signals or time.

pub mod claims_at_delivery;
pub mod fresh_inboxes;
pub mod signal_or_insert;
pub mod signals;
pub mod sleeping;
pub mod timeouts;
pub mod timers;
pub mod updates;
