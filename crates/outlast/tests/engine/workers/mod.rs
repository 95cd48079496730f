//! Engines that start, crash, stall, lose their store and shut down.

mod blocking;
mod crashing;
mod leases;
mod load;
mod nodes;
mod outages;
mod quarantine;
mod setup;
mod shutdown;
mod store_faults;
