//! What workflows promise, on both stores. One program, so that it is linked once.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

mod support;

mod activities;
mod all;
mod budget;
mod cancelling;
mod chance;
mod circles;
mod closing;
mod combinators;
mod crashing;
mod determinism;
mod engines;
mod failures;
mod handles;
mod inputs;
mod joining;
mod looking;
mod mixed_groups;
mod open_groups;
mod payloads;
mod records;
mod renewing;
mod repair;
#[cfg(feature = "encryption")]
mod secrets;
mod selecting;
mod shapes;
mod side_by_side;
mod starting;
mod steps;
mod timers;
mod versions;
