//! Connections of the store: how it connects, what goes over the wire, and what happens when a
//! connection or a server fails.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

mod connecting;
mod cutting;
mod failing_over;
mod faults;
mod listening;
mod pipelining;
#[path = "../support/mod.rs"]
mod support;
mod tls;
