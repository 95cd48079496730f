//! How fast Outlast is, beside the database's own limit and beside others.
//!
//! `cargo run --release -p outlast-bench -- WORKLOAD`; `--help` says the rest. Every workload runs its sides in
//! turn (A B A B), each time on a fresh database, so that a ratio compares what ran under the same
//! conditions.

mod args;
mod cpu;
mod figure;
mod floor;
mod machines;
mod peer;
mod site;
mod statistics;
mod targets;
mod workload;

use anyhow::Result;
use args::Args;
use clap::Parser;

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let report = workload::run(&args).await?;
    match args.json {
        true => report.print_json()?,
        false => report.print_table(),
    }
    Ok(())
}
