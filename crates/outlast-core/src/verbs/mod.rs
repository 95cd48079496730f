//! The requests and answers of the verbs of [`Store`](crate::Store), one file per verb.
//!
//! A request checks itself, so that both stores refuse the same input with the same text. Nothing
//! here reads a store. The stores have the same files in their own `verbs/`.

pub(crate) mod claim;
pub(crate) mod collect;
pub(crate) mod commit;
pub(crate) mod deliver;
pub(crate) mod fire;
pub(crate) mod insert;
pub(crate) mod lease;
pub(crate) mod operate;
pub(crate) mod reap;
pub(crate) mod repair;
pub(crate) mod run_stats;
pub(crate) mod time_out;
