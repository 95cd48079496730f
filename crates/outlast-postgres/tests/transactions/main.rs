//! Inserts and signals inside the caller's own transaction keep the same rules with each driver.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]
#![cfg(any(feature = "sqlx-0_8", feature = "sqlx-0_9", feature = "tokio-postgres"))]

mod rules;
#[cfg(feature = "sqlx-0_8")]
mod sqlx_0_8;
#[cfg(feature = "sqlx-0_9")]
mod sqlx_0_9;
#[path = "../support/mod.rs"]
mod support;
#[cfg(feature = "tokio-postgres")]
mod tokio_postgres;
