//! Which instance runs when, where and in which order.

mod deploys;
mod partitions;
mod run_ahead;
mod scheduling;
mod uniqueness;
mod wakeups;
