//! The API as its callers see it: a file per subject, on both stores.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

mod bad_input;
mod bulk;
mod dashboard;
mod documents;
mod ending;
mod errors;
mod events;
mod family;
#[path = "../machines/flows.rs"]
mod flow_machines;
mod flows;
mod glance;
mod hosts;
mod instances;
mod joins;
mod mounted;
mod operating;
mod reach;
mod reach_of_trees;
mod readiness;
mod serving;
mod signals;
mod sleeping;
mod support;
#[path = "../machines/team.rs"]
mod team;
mod tokens;
#[path = "../machines/tracked.rs"]
mod tracked;
mod transitions;
mod waiting;
mod webhooks;
