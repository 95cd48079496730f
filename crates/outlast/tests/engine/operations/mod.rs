//! Operations: clients, explanations, metrics, traces and run stats.

mod client;
mod columns;
mod explain;
mod metrics_and_traces;
mod run_stats;
