//! The rules. Each takes an empty store and panics where the store breaks the rule.
//!
//! A rule names the invariant of docs/protocol.md that it checks (`I7`). A rule that catches a
//! defect of docs/protocol.md names that defect (`defect 7`).

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "these are tests: the name of each is its sentence, and an unexpected error fails it"
)]

pub mod claiming;
pub mod families;
pub mod operations;
pub mod outcomes;
pub mod queries;
pub mod waiting;
pub mod workflows;
