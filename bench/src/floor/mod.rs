//! The upper limit: the same rows, indexes and commits, driven by a loop of batched SQL without an
//! engine.

mod postgres;
mod sqlite;

use crate::args::Workload;
use crate::bed::Bed;
use crate::figure::Sample;
use crate::workload::Run;
use anyhow::{Result, bail};

pub(crate) async fn run(workload: Workload, run: &Run<'_>) -> Result<Vec<Sample>> {
    let bed = run.site.fresh().await?;
    match (workload, bed) {
        (Workload::Drain, Bed::Postgres { config, .. }) => postgres::drain(run, &config).await,
        (Workload::Chain, Bed::Postgres { config, .. }) => postgres::chain(run, &config).await,
        (Workload::Insert, Bed::Postgres { config, .. }) => postgres::insert(run, &config).await,
        (Workload::Drain, Bed::Sqlite { path, .. }) => sqlite::drain(run, &path),
        (Workload::Chain, Bed::Sqlite { path, .. }) => sqlite::chain(run, &path),
        (Workload::Insert, Bed::Sqlite { path, .. }) => sqlite::insert(run, &path),
        (
            Workload::Fanout
            | Workload::Window
            | Workload::CancelTree
            | Workload::Signal
            | Workload::Latency
            | Workload::Timers
            | Workload::Parked
            | Workload::Backlog
            | Workload::FlowSteps
            | Workload::FlowFanout
            | Workload::FlowReplay
            | Workload::History,
            _,
        ) => bail!("{workload} has no floor"),
    }
}
