//! Machines: the outcomes of their steps, and the effects of these outcomes.

mod cancelling;
#[cfg(all(feature = "encryption", feature = "tokio-postgres"))]
mod codec;
mod context;
mod failures;
mod fresh_inboxes;
mod handler_outcomes;
mod handles;
mod histories;
mod jobs;
mod outcomes;
mod outside_transactions;
mod signals;
mod terminating;
mod timeouts;
mod typed_failures;
mod updates;
