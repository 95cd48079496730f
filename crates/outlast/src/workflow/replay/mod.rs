//! The replay core: runs the code of a workflow against its history, and decides what is written next.
//!
//! [`session`] drives one run. It tells the code one event at a time and turns what the code asks for into the next
//! commit. [`runtime`] is the state of that run: its history, its calls and what they came to. [`events`] is what the
//! history stores. [`determinism`] polls the code and notices what no replay could repeat.

pub(super) mod determinism;
pub(super) mod events;
pub(super) mod runtime;
pub(super) mod session;

pub(crate) use events::failed_step;
pub(crate) use session::{Begun, Session, failed};
