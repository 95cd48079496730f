//! What the crate promises, on both stores. One program, so that it is linked once.

mod support;

mod children;
mod client;
mod context;
mod crashing;
mod deploys;
mod failures;
mod jobs;
mod load;
mod nodes;
mod observing;
mod outages;
mod outcomes;
mod partitions;
mod run_ahead;
mod scheduling;
mod setup;
mod signals;
mod stopping;
mod store_faults;
mod testing;
mod uniqueness;
mod wakeups;
