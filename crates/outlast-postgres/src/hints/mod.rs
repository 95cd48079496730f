//! Hints between nodes: sending and receiving them, their format, and whether a node listens.
//!
//! The engine's notifier uses them. A lost hint costs time and nothing else.

pub(crate) mod listen;
pub(crate) mod message;
pub(crate) mod presence;
