//! Queues: when, where and in which order instances run.

mod deploys;
mod partitions;
mod run_ahead;
mod scheduling;
mod uniqueness;
mod wakeups;
