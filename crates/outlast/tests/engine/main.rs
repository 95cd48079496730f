//! What the crate promises, on both stores. One program, so that it is linked once.

mod support;

mod blocking;
mod cancelling;
mod children;
mod client;
#[cfg(all(feature = "encryption", feature = "tokio-postgres"))]
mod codec;
mod context;
mod crashing;
mod deploys;
mod explaining;
mod failures;
mod families;
mod jobs;
mod joins;
mod leases;
mod load;
mod nodes;
mod observing;
mod outages;
mod outcomes;
mod partitions;
mod recording;
mod run_ahead;
mod scheduling;
mod setup;
mod signals;
mod stopping;
mod store_faults;
mod suspects;
mod terminating;
mod testing;
mod testing_families;
mod transitions;
mod uniqueness;
mod wakeups;
