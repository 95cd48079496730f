//! What users and operators see of instances and engines, and do with them.

mod client;
mod explain;
mod metrics_and_traces;
mod run_stats;
