//! What is inserted, committed and removed.

pub mod bad_input;
pub mod batches;
pub mod commits;
pub mod retention;
pub mod uniqueness;
pub mod visits;
