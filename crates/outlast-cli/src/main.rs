//! The `outlast` command: inserts, signals, shows and operates instances, and runs a
//! demonstration.
//!
//! Data goes to stdout, everything else to stderr. Scripts decide by the exit code (`failure.rs`),
//! never by text. Each command is a file below `commands/`. All of them use the database directly,
//! except `query`, which asks a server.

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
mod server_client;
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
    if let Some(words) = failure.message() {
        // Stderr may be closed; then the message is dropped.
        output::note(format!("error: {words}"));
    }
    // The reader has closed the pipe: `outlast list | head` is no failure and ends with code 0.
    ExitCode::from(failure.code())
}
