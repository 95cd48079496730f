//! Commands that start, signal and show instances.

pub(crate) mod get;
pub(crate) mod histories;
pub(crate) mod insert;
pub(crate) mod list;
pub(crate) mod query;
pub(crate) mod signal;
pub(crate) mod target;
pub(crate) mod tree;
pub(crate) mod update;
pub(crate) mod views;
pub(crate) mod watch;
