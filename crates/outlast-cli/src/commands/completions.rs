//! `outlast completions`: prints the completion script of a shell.

use crate::args::Cli;
use crate::failure::Failure;
use crate::output::Output;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Arguments of `completions`.
#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs, output: &Output) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "outlast", &mut script);
    output.line(String::from_utf8_lossy(&script).trim_end())
}
