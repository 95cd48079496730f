//! The schema: its migrations, its names, its roles, its SQL functions, and the statements that
//! run against it.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

mod migrating;
mod names;
mod roles;
mod sql_functions;
mod statements;
#[path = "../support/mod.rs"]
mod support;
