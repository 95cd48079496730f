//! Instances: start, list, wait, signals, families and workflows.

mod family;
pub(crate) mod flows;
mod insert_and_list;
mod joins;
mod long_poll;
mod queries;
mod signals;
mod sleeping;
mod transitions;
mod updates;
mod views;
