//! How fast Outlast is, beside the database's own limit and beside others.
//!
//! `cargo run --release -p outlast-bench -- WORKLOAD`; `--help` says the rest. Every workload runs its sides in
//! turn (A B A B), each time on a fresh database, so that a ratio compares what ran under the same
//! conditions.

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
        // Without a backtrace: what goes wrong here is a server or a command line.
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// What was measured is printed even when a later workload fails.
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

/// JoinSets in order when it is interrupted: a server that we started ends with us.
async fn measure(args: &Args, report: &mut Report) -> Result<()> {
    tokio::select! {
        measured = workload::run(args, report) => measured,
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
    }
}
