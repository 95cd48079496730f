//! `outlast queues`: what waits, and stopping it.

use super::operator::Operator;
use crate::database::Database;
use crate::failure::Failure;
use crate::object;
use crate::output::{Format, Output, note};
use crate::table::{Table, cell};
use crate::words::{count, relative};
use clap::{Args, Subcommand};
use serde_json::json;

/// Arguments of `queues`.
#[derive(Args, Debug)]
pub(crate) struct QueuesArgs {
    #[command(subcommand)]
    command: Option<QueuesCommand>,
}

/// What to do to a queue.
#[derive(Debug, Subcommand)]
pub(crate) enum QueuesCommand {
    /// Show the queues that have work, are paused or are served by a live worker (the default)
    List,
    /// Stop a queue from giving out work, on every node; what runs goes on
    Pause(OneQueue),
    /// Let a queue give out work again
    Resume(OneQueue),
}

/// One queue, by its name.
#[derive(Args, Debug)]
pub(crate) struct OneQueue {
    /// The queue
    name: String,
    #[command(flatten)]
    operator: Operator,
}

pub(crate) async fn run(
    args: &QueuesArgs,
    database: &Database,
    output: &Output,
) -> Result<(), Failure> {
    match &args.command {
        None | Some(QueuesCommand::List) => list(database, output).await,
        Some(QueuesCommand::Pause(queue)) => {
            let note = queue.operator.note();
            let changed = database.client.pause(&queue.name, note).await?;
            say(&queue.name, "paused", changed, output)
        }
        Some(QueuesCommand::Resume(queue)) => {
            let note = queue.operator.note();
            let changed = database.client.resume(&queue.name, note).await?;
            say(&queue.name, "running", changed, output)
        }
    }
}

fn say(queue: &str, now: &str, changed: bool, output: &Output) -> Result<(), Failure> {
    match changed {
        true => note(format!("queue {queue} is {now} now")),
        false => note(format!("queue {queue} was {now} already")),
    }
    match output.format {
        Format::Json => output.json(&json!({"queue": queue, "changed": changed})),
        Format::Table | Format::Ids => Ok(()),
    }
}

async fn list(database: &Database, output: &Output) -> Result<(), Failure> {
    let now = database.client.now().await?;
    let queues = database.client.queues().await?;
    match output.format {
        Format::Json => queues
            .iter()
            .try_for_each(|queue| output.json(&object::queue(queue))),
        Format::Ids => queues.iter().try_for_each(|queue| output.line(&queue.name)),
        Format::Table if queues.is_empty() => {
            note("no queue has work, none is paused, and no live worker serves any");
            Ok(())
        }
        Format::Table => {
            let headings = [
                "queue",
                "due",
                "delayed",
                "executing",
                "oldest due",
                "paused",
            ];
            let mut table = Table::new(output, &headings);
            for queue in &queues {
                let oldest = queue.oldest_eligible_at.map(|at| relative(at, now));
                table.row([
                    cell(&queue.name),
                    cell(count(queue.eligible)),
                    cell(count(queue.delayed)),
                    cell(count(queue.executing)),
                    cell(oldest.unwrap_or_default()),
                    cell(if queue.paused { "paused" } else { "" }),
                ]);
            }
            output.table(&table)
        }
    }
}
