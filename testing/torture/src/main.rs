//! Kills, cuts, freezes and fills Outlast, and checks that nothing is lost.
//!
//! `cargo run --release -p outlast-torture -- SCENARIO --seed S --minutes M`; `--help` says the rest. A supervisor
//! starts real worker processes on a real database, drives load, injects faults, and at the end checks what must
//! always be true, from two records: what the database committed (triggers write an audit in the transactions
//! themselves) and what really happened (every process keeps a ledger on the disk).

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

/// Whether nothing was wrong.
async fn supervise(args: &Args) -> Result<bool> {
    eprintln!("seed {}", args.seed);
    let mut asked_to_stop = signal(SignalKind::terminate())?;
    tokio::select! {
        good = scenario::run(args) => good,
        // In order: servers and workers that we started end with us.
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        _ = asked_to_stop.recv() => bail!("asked to stop"),
    }
}
