//! What the engine counts and measures: run counts for the store, and gauges for the exporter.

pub(super) mod gauge_sampler;
pub(super) mod run_counters;
pub(super) mod stats_flusher;
