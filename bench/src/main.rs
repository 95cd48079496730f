//! Measures Outlast, beside the database's own limit and beside peers.
//!
//! `cargo run --release -p outlast-bench -- WORKLOAD`; see `--help`. The sides of every workload
//! alternate (A B A B), each time on a fresh database, so that a ratio compares runs under the
//! same conditions.

mod args;
mod bare;
mod bed;
mod cpu;
mod eye;
mod figure;
mod floor;
mod flows;
mod machines;
mod peer;
mod report;
mod site;
mod statistics;
mod targets;
mod workload;

use anyhow::{Result, bail};
use args::Args;
use clap::Parser;
use report::Report;
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args).await {
        Ok(()) => ExitCode::SUCCESS,
        // Without a backtrace: errors here are about a server or the command line.
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the figures even when a later workload fails.
async fn run(args: &Args) -> Result<()> {
    let mut report = Report::default();
    let measured = measure(args, &mut report).await;
    match (report.is_empty(), args.json) {
        (true, _) => {}
        (false, true) => report.print_json()?,
        (false, false) => report.print_table(),
    }
    measured
}

/// Returns in order when it is interrupted, so that a server that we started ends with us.
async fn measure(args: &Args, report: &mut Report) -> Result<()> {
    tokio::select! {
        measured = workload::run(args, report) => measured,
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
    }
}
