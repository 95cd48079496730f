//! The replay core: runs the code of a workflow against its history and decides what to write.
//!
//! [`session`] drives one run. It passes events to the code one at a time, and turns the calls of
//! the code into the next commit. [`runtime`] is the state of that run: its history, its calls and
//! their results. [`events`] defines what the history stores. [`determinism`] polls the code and
//! detects what a replay could not repeat.

pub(super) mod determinism;
pub(super) mod events;
pub(super) mod runtime;
pub(super) mod session;

pub(crate) use events::failed_step;
pub(crate) use session::{Begun, Replayed, Session, failed};
