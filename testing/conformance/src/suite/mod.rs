//! The rules. Each takes an empty store and panics where the store breaks the rule.
//!
//! A rule names the invariant of docs/protocol.md that it checks (`I7`). A rule that catches a
//! defect of docs/protocol.md names that defect (`defect 7`).

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "these are tests: the name of each is its sentence, and an unexpected error fails it"
)]

pub mod answering;
pub mod bad_input;
pub mod batches;
pub mod cancelling;
pub mod cascades;
pub mod children;
pub mod claims;
pub mod commits;
pub mod continue_as_new;
pub mod counting_steps;
pub mod flow_ends;
pub mod flow_groups;
pub mod flow_parks;
pub mod flow_parts;
pub mod flows;
pub mod histories;
pub mod inspecting;
pub mod join_deadlines;
pub mod joins;
pub mod leases;
pub mod operators;
pub mod partitions;
pub mod races;
pub mod reaping;
pub mod rest_of_joins;
pub mod retention;
pub mod run_stats;
pub mod searching;
pub mod signal_or_insert;
pub mod signals;
pub mod signals_and_claims;
pub mod sleeping;
pub mod timers;
pub mod trees;
pub mod uniqueness;
pub mod visits;
pub mod windows;
