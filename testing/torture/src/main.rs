//! Kills, cuts, freezes and fills Outlast, and checks that nothing is lost.
//!
//! `cargo run --release -p outlast-torture -- SCENARIO --seed S --minutes M`; see `--help`.
//!
//! A supervisor starts real worker processes on a real database, drives load and injects faults.
//! At the end it checks the invariants against two records. The audit has what the database
//! committed; triggers write it in the transactions themselves. The ledger has what really
//! happened; every process writes it to the disk.

mod args;
mod audit;
mod check;
mod crew;
mod ledger;
mod load;
mod machines;
mod report;
mod scenario;
mod site;
mod stage;
mod worker;

use anyhow::{Result, bail};
use args::Args;
use clap::Parser;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> ExitCode {
    let done = match worker::orders() {
        Ok(Some(orders)) => worker::run(orders).await.map(|()| true),
        Ok(None) => supervise(&Args::parse()).await,
        Err(error) => Err(error),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether no invariant was violated.
async fn supervise(args: &Args) -> Result<bool> {
    eprintln!("seed {}", args.seed);
    let mut asked_to_stop = signal(SignalKind::terminate())?;
    tokio::select! {
        good = scenario::run(args) => good,
        // Returns in order, so that the servers and workers that we started end with us.
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        _ = asked_to_stop.recv() => bail!("asked to stop"),
    }
}
