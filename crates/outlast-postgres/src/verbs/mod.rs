//! The verbs of [`Store`](outlast_core::Store), one file per verb, and the parts that they share.
//!
//! `store.rs` calls them. Each builds the calls of its statements, sends them through a
//! [`Session`](crate::session::Session) and reads the answers. A verb is one transaction. The
//! statements are in the folder of the same name under `sql/`.
//!
//! Every verb takes its locks in the order of docs/protocol.md, "Order of locks". A verb that
//! looks beyond the rows it writes locks in one statement and looks in a later one. In read
//! committed, only a later statement sees what was committed while the first one waited.

pub(crate) mod cascade;
pub(crate) mod claim;
pub(crate) mod collect;
pub(crate) mod commit;
pub(crate) mod deliver;
pub(crate) mod effects;
pub(crate) mod end_instances;
pub(crate) mod enqueue;
pub(crate) mod fire;
pub(crate) mod inbox;
pub(crate) mod insert;
pub(crate) mod lease;
pub(crate) mod operate;
pub(crate) mod reap;
pub(crate) mod repair;
pub(crate) mod run_stats;
pub(crate) mod time_out;
