//! The command line.

use crate::commands;
use crate::database::DatabaseArgs;
use crate::failure::EXIT_CODES;
use crate::output::Format;
use clap::{Parser, Subcommand};

/// The help heading of the options that every command has.
pub(crate) const EVERYWHERE: &str = "Global options";

/// Durable state machines and workflows: start, signal, show and operate instances.
#[derive(Debug, Parser)]
#[command(name = "outlast", version, max_term_width = 100, after_help = EXIT_CODES)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,

    /// Output format
    #[arg(
        short,
        long,
        global = true,
        help_heading = EVERYWHERE,
        value_name = "FORMAT",
        default_value = "table"
    )]
    pub(crate) output: Format,

    /// Log more to stderr; repeat for debug output
    #[arg(short, long, global = true, help_heading = EVERYWHERE, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// A command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run sample machines on their own database, to explore the tools
    Demo(crate::demo::DemoArgs),
    /// Serve the HTTP API and the dashboard of a database
    Serve(commands::server::serve::ServeArgs),
    /// Create a token for the HTTP API: its secret, and the line for the tokens file of `serve`
    Token(commands::server::token::TokenArgs),
    /// Migrate the schema of the database, or show the migrations
    Migrate(commands::database::migrate::MigrateArgs),
    /// Start an instance
    Insert(commands::instances::insert::InsertArgs),
    /// Send a signal to an instance
    Signal(commands::instances::signal::SignalArgs),
    /// Send an update to an instance, and wait for the reply
    Update(commands::instances::update::UpdateArgs),
    /// Show one instance: its data, what it waits for, its inbox and its children
    Get(commands::instances::get::GetArgs),
    /// List instances, newest first
    #[command(visible_alias = "ls")]
    List(commands::instances::list::ListArgs),
    /// Count instances
    Count(commands::instances::list::CountArgs),
    /// Print the changes of an instance until it finishes
    Watch(commands::instances::watch::WatchArgs),
    /// Show an instance and its descendants
    Tree(commands::instances::tree::TreeArgs),
    /// Show the history of an instance
    History(commands::instances::histories::HistoryArgs),
    /// Show the values that a workflow has published
    Views(commands::instances::views::ViewsArgs),
    /// Ask a workflow, through a server that has its code
    Query(commands::instances::query::QueryArgs),
    /// Export a run of a workflow with its history as JSON, to replay it in a test
    Export(commands::instances::histories::ExportArgs),
    /// Restart failed or cancelled instances at the step where they ended
    Retry(commands::operations::bulk::BulkArgs),
    /// Request the cancel of instances; each may first undo its work
    Cancel(commands::operations::end_instances::EndArgs),
    /// End instances immediately, as cancelled
    Terminate(commands::operations::end_instances::EndArgs),
    /// Delete finished instances
    Delete(commands::operations::bulk::BulkArgs),
    /// Repair instances that nothing would ever wake; leave the others as they are
    Repair(commands::operations::bulk::BulkArgs),
    /// Show the queues; pause and resume them
    Queues(commands::operations::queues::QueuesArgs),
    /// Show the workers
    Workers,
    /// Delete instances that finished long ago
    Collect(commands::database::collect::CollectArgs),
    /// Show the database live on the terminal
    Top(crate::top::TopArgs),
    /// Check the database and suggest a remedy for each finding
    Doctor(commands::database::doctor::DoctorArgs),
    /// Print the completion script of a shell
    Completions(commands::completions::CompletionsArgs),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_definition_is_valid() {
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
