//! The API as its callers see it: a file per subject, on both stores.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

mod bad_input;
mod bulk;
mod dashboard;
mod documents;
mod errors;
mod events;
mod family;
mod glance;
mod hosts;
mod instances;
mod mounted;
mod operating;
mod reach;
mod serving;
mod signals;
mod support;
mod tokens;
mod waiting;
mod webhooks;
