//! Claims of workers, and the rules that decide which instance a worker gets.

pub mod claims;
pub mod leases;
pub mod partitions;
pub mod races;
pub mod reaping;
