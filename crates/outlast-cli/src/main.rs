//! The `outlast` command: insert, signal, look at and operate instances, and a demonstration.
//!
//! Data goes to stdout, everything else to stderr. What went wrong is an exit code (`failure.rs`), so that scripts
//! need not read words. Each command is a file under `commands/`; all of them talk to the database directly.

mod args;
mod commands;
mod database;
mod demo;
mod failure;
mod filters;
mod format;
mod join;
mod json;
mod output;
mod parameters;
mod progress;
mod server;
mod shutdown_signal;
mod table;
mod top;
mod workflow_view;

use args::Cli;
use clap::Parser;
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let result = commands::run(Cli::parse()).await;
    let failure = match result {
        Ok(()) => return ExitCode::SUCCESS,
        Err(failure) => failure,
    };
    if let Some(words) = failure.words() {
        // Nobody may be listening, and then there is nobody to tell.
        output::note(format!("error: {words}"));
    }
    // Whoever reads has seen enough: `outlast list | head` is not a failure, and has the code 0.
    ExitCode::from(failure.code())
}
