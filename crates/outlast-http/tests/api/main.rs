//! Tests of the HTTP API on both stores, with one folder per area and one file per subject.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

mod access;
#[path = "../machines/flows.rs"]
mod flow_machines;
mod instances;
mod operations;
mod server;
mod support;
#[path = "../machines/team.rs"]
mod team;
#[path = "../machines/tracked.rs"]
mod tracked;
