//! The verbs of [`Store`](outlast_core::Store), one file per verb, and the parts that they share.
//!
//! `store.rs` sends them to the writer thread, which runs each in a savepoint of its transaction.
//! So a verb sees no other writer, and locks nothing itself. Where the contract says *lock, then
//! read*, the verb just reads. The statements are in the folder of the same name under `sql/`.
//!
//! Two rules hold in every file:
//!
//! - Rows are read to the end before the first of them is written. A statement must not walk an
//!   index that another statement changes.
//! - Ends are gathered, and their effects on other rows come after the writes ([`effects`]).

pub(crate) mod cascade;
pub(crate) mod claim;
pub(crate) mod collect;
pub(crate) mod commit;
pub(crate) mod deliver;
pub(crate) mod effects;
pub(crate) mod end_instances;
pub(crate) mod fire;
pub(crate) mod inbox;
pub(crate) mod insert;
pub(crate) mod lease;
pub(crate) mod operate;
pub(crate) mod reap;
pub(crate) mod repair;
pub(crate) mod run_stats;
pub(crate) mod time_out;
