//! What a machine decides, and what becomes of it.

mod cancelling;
#[cfg(all(feature = "encryption", feature = "tokio-postgres"))]
mod codec;
mod context;
mod failures;
mod histories;
mod jobs;
mod outcomes;
mod signals;
mod terminating;
