//! What machines, jobs and workflows have in common: a name, and how they are described, started
//! and addressed.
//!
//! `machine` and `workflow` build on it, and so does the client. Nothing here runs code or opens
//! a store.

mod address;
mod data;
mod durable;
mod durations;
mod new;

pub use address::{Address, Id, Key};
pub use data::{Data, MissingData, Needs};
pub use durable::{Durable, Fails, Register};
pub use durations::{DAY, HOUR, MINUTE};
pub use new::New;

pub(crate) use data::Provided;
