//! Inserts, commits and the removal of instances.

pub mod bad_input;
pub mod batches;
pub mod commits;
pub mod retention;
pub mod uniqueness;
pub mod visits;
