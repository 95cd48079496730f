//! Verbs in situations that only PostgreSQL has: rows that cannot be read or written, the order of
//! locks, and isolation levels. Also what the doctor and repairs find.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

mod bad_rows;
mod examining;
#[cfg(feature = "tokio-postgres")]
mod executing;
mod isolating;
mod lock_order;
mod replies;
#[path = "../support/mod.rs"]
mod support;
