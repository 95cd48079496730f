//! The threads that own the connections, and the way of a verb to them and back.
//!
//! `store.rs` starts the threads and sends them jobs. SQLite's calls block. Here they block a
//! thread of the store, never one of an async runtime.

pub(crate) mod job;
pub(crate) mod mailbox;
pub(crate) mod reader;
pub(crate) mod writer;
