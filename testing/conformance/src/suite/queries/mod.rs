//! Queries: they change nothing.

pub mod lists;
pub mod run_stats;
pub mod searches;
pub mod step_counts;
