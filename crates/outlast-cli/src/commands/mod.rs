//! One file per command, in a folder with the code that related commands share.

pub(crate) mod completions;
pub(crate) mod database;
pub(crate) mod instances;
pub(crate) mod operations;
pub(crate) mod server;
pub(crate) mod workers;

use crate::args::{Cli, Command};
use crate::database::{Access, Database};
use crate::failure::Failure;
use crate::output::{Logs, Output};
use crate::{demo, top};
use database::{collect, doctor, migrate};
use instances::{get, histories, insert, list, query, signal, tree, update, views, watch};
use operations::end_instances::Ending;
use operations::verb::Verb;
use operations::{bulk, end_instances, queues};
use server::{serve, token};

/// Runs a command.
pub(crate) async fn run(cli: Cli) -> Result<(), Failure> {
    init_logs(cli.verbose);
    let output = Output::new(cli.output);
    match &cli.command {
        // These open their databases themselves, or need none.
        Command::Completions(args) => return completions::run(args, &output),
        Command::Token(args) => return token::run(args, &output),
        Command::Query(args) => return query::run(args, &output).await,
        Command::Migrate(args) => return migrate::run(args, &cli.database, &output).await,
        Command::Demo(args) => return demo::run(args, &cli.database, &output).await,
        Command::Serve(_)
        | Command::Insert(_)
        | Command::Signal(_)
        | Command::Update(_)
        | Command::Get(_)
        | Command::List(_)
        | Command::Count(_)
        | Command::Watch(_)
        | Command::Tree(_)
        | Command::History(_)
        | Command::Export(_)
        | Command::Views(_)
        | Command::Retry(_)
        | Command::Cancel(_)
        | Command::Terminate(_)
        | Command::Delete(_)
        | Command::Repair(_)
        | Command::Queues(_)
        | Command::Workers
        | Command::Collect(_)
        | Command::Top(_)
        | Command::Doctor(_) => {}
    }
    let database = cli.database.open(access(&cli.command)).await?;
    let result = run_on(&database, &cli.command, &output).await;
    database.close().await;
    result
}

/// Returns whether a command writes.
fn access(command: &Command) -> Access {
    match command {
        Command::Get(_)
        | Command::List(_)
        | Command::Count(_)
        | Command::Watch(_)
        | Command::Tree(_)
        | Command::History(_)
        | Command::Export(_)
        | Command::Views(_)
        | Command::Query(_)
        | Command::Workers
        | Command::Top(_)
        | Command::Doctor(_) => Access::Read,
        Command::Queues(args) => args.access(),
        Command::Serve(_)
        | Command::Insert(_)
        | Command::Signal(_)
        | Command::Update(_)
        | Command::Retry(_)
        | Command::Cancel(_)
        | Command::Terminate(_)
        | Command::Delete(_)
        | Command::Repair(_)
        | Command::Collect(_)
        | Command::Completions(_)
        | Command::Token(_)
        | Command::Migrate(_)
        | Command::Demo(_) => Access::Write,
    }
}

async fn run_on(database: &Database, command: &Command, output: &Output) -> Result<(), Failure> {
    match command {
        Command::Insert(args) => insert::run(args, database, output).await,
        Command::Signal(args) => signal::run(args, database, output).await,
        Command::Update(args) => update::run(args, database, output).await,
        Command::Get(args) => get::run(args, database, output).await,
        Command::List(args) => list::run(args, database, output).await,
        Command::Count(args) => list::count(args, database, output).await,
        Command::Watch(args) => watch::run(args, database, output).await,
        Command::Tree(args) => tree::run(args, database, output).await,
        Command::History(args) => histories::run(args, database, output).await,
        Command::Export(args) => histories::export(args, database, output).await,
        Command::Views(args) => views::run(args, database, output).await,
        Command::Retry(args) => bulk::run(Verb::Retry, args, database, output).await,
        Command::Cancel(args) => end_instances::run(Ending::Cancel, args, database, output).await,
        Command::Terminate(args) => {
            end_instances::run(Ending::Terminate, args, database, output).await
        }
        Command::Delete(args) => bulk::run(Verb::Delete, args, database, output).await,
        Command::Repair(args) => bulk::run(Verb::Repair, args, database, output).await,
        Command::Queues(args) => queues::run(args, database, output).await,
        Command::Workers => workers::run(database, output).await,
        Command::Collect(args) => collect::run(args, database, output).await,
        Command::Top(args) => top::run(args, database).await,
        Command::Doctor(args) => doctor::run(args, database, output).await,
        Command::Serve(args) => serve::run(args, database, output).await,
        Command::Query(_)
        | Command::Completions(_)
        | Command::Token(_)
        | Command::Migrate(_)
        | Command::Demo(_) => Ok(()),
    }
}

/// Sends the logs of the libraries to stderr.
fn init_logs(verbose: u8) {
    let level = match verbose {
        0 => tracing::Level::WARN,
        1 => tracing::Level::INFO,
        _ => tracing::Level::DEBUG,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(Logs::default)
        .with_ansi(false)
        .init();
}
