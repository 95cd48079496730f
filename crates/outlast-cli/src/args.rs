//! The command line.

use crate::commands;
use crate::database::DatabaseArgs;
use crate::failure::EXIT_CODES;
use crate::output::Format;
use clap::{Parser, Subcommand};

/// Where help lists what every command takes.
pub(crate) const EVERYWHERE: &str = "Everywhere";

/// State machines that outlast the process: start, signal, look at and operate instances.
#[derive(Debug, Parser)]
#[command(name = "outlast", version, max_term_width = 100, after_help = EXIT_CODES)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,

    /// How data is printed
    #[arg(
        short,
        long,
        global = true,
        help_heading = EVERYWHERE,
        value_name = "FORMAT",
        default_value = "table"
    )]
    pub(crate) output: Format,

    /// Tell more of what happens, on stderr; twice for everything
    #[arg(short, long, global = true, help_heading = EVERYWHERE, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run sample machines on a database of their own, to look at
    Demo(crate::demo::DemoArgs),
    /// Serve the HTTP API and the dashboard of a database
    Serve(commands::serve::ServeArgs),
    /// Make a token for the HTTP API: its secret, and the line that `serve` knows it by
    Token(commands::token::TokenArgs),
    /// Bring the schema of the database to this version, or show what that would take
    Migrate(commands::migrate::MigrateArgs),
    /// Start an instance
    Insert(commands::insert::InsertArgs),
    /// Send a signal to an instance
    Signal(commands::signal::SignalArgs),
    /// Show one instance: what it carries, what it waits for, its inbox, its children
    Get(commands::get::GetArgs),
    /// List instances, newest first
    #[command(visible_alias = "ls")]
    List(commands::list::ListArgs),
    /// Count instances
    Count(commands::list::CountArgs),
    /// Print what becomes of an instance until it ends
    Watch(commands::watch::WatchArgs),
    /// Show an instance with its children and theirs
    Tree(commands::tree::TreeArgs),
    /// Show what happened in a run of a workflow
    History(commands::histories::HistoryArgs),
    /// Write a run of a workflow with its whole history as JSON, to replay it against other code
    Export(commands::histories::ExportArgs),
    /// Start failed or cancelled instances again at the step where they ended
    Retry(commands::bulk::BulkArgs),
    /// Ask instances to end; each decides how, and is cancelled then
    Cancel(commands::end_instances::EndArgs),
    /// End instances as cancelled at once, whatever they do
    Terminate(commands::end_instances::EndArgs),
    /// Remove instances that have ended
    Delete(commands::bulk::BulkArgs),
    /// Show the queues; pause and resume them
    Queues(commands::queues::QueuesArgs),
    /// Show the workers
    Workers,
    /// Remove instances that ended long ago
    Collect(commands::collect::CollectArgs),
    /// Watch the whole database on the full screen
    Top(crate::top::TopArgs),
    /// Examine the database and say what to do about what is found
    Doctor(commands::doctor::DoctorArgs),
    /// Print the completions for a shell
    Completions(commands::completions::CompletionsArgs),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_makes_sense() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_and_option_is_explained() {
        fn check(command: &clap::Command) {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for argument in command.get_arguments() {
                let name = argument.get_id();
                assert!(
                    argument.get_help().is_some(),
                    "{name} of {}",
                    command.get_name()
                );
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }
}
