//! `outlast queues`: shows, pauses and resumes queues.

use super::operator::Operator;
use crate::database::{Access, Database};
use crate::failure::Failure;
use crate::format::{count, relative};
use crate::json;
use crate::output::{Format, Output, note};
use crate::table::{Table, cell};
use clap::{Args, Subcommand};
use outlast::Client;
use serde_json::json;

/// The number of similar names that an error lists.
const NAMED_MAX: usize = 5;

/// Arguments of `queues`.
#[derive(Args, Debug)]
pub(crate) struct QueuesArgs {
    #[command(subcommand)]
    command: Option<QueuesCommand>,
}

/// A command on queues.
#[derive(Debug, Subcommand)]
pub(crate) enum QueuesCommand {
    /// Show the queues that have work, are paused or are served by a live worker (the default)
    List,
    /// Pause a queue on every node: no further work is claimed, and running steps continue
    Pause(OneQueue),
    /// Resume a queue
    Resume(OneQueue),
}

/// One queue, by its name.
#[derive(Args, Debug)]
pub(crate) struct OneQueue {
    /// The queue
    name: String,
    /// Allow a name that no queue has yet
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    operator: Operator,
}

impl OneQueue {
    /// Refuses an unknown name, which may be misspelt.
    async fn check(&self, client: &Client) -> Result<(), Failure> {
        if self.force {
            return Ok(());
        }
        let Some(mut names) = client.admin().missing_queue(&self.name).await? else {
            return Ok(());
        };
        names.truncate(NAMED_MAX);
        Err(Failure::NotFound(format!(
            "queue {:?} does not exist: it has no instances, is not paused, and no worker serves it. \
             Similar names: {}. Use --force to proceed anyway",
            self.name,
            names.join(", ")
        )))
    }
}

impl QueuesArgs {
    pub(crate) fn access(&self) -> Access {
        match self.command {
            None | Some(QueuesCommand::List) => Access::Read,
            Some(QueuesCommand::Pause(_) | QueuesCommand::Resume(_)) => Access::Write,
        }
    }
}

pub(crate) async fn run(
    args: &QueuesArgs,
    database: &Database,
    output: &Output,
) -> Result<(), Failure> {
    match &args.command {
        None | Some(QueuesCommand::List) => list(database, output).await,
        Some(QueuesCommand::Pause(queue)) => {
            queue.check(&database.client).await?;
            let note = queue.operator.note();
            let changed = database.client.admin().pause(&queue.name, note).await?;
            report(&queue.name, "paused", changed, output)
        }
        Some(QueuesCommand::Resume(queue)) => {
            queue.check(&database.client).await?;
            let note = queue.operator.note();
            let changed = database.client.admin().resume(&queue.name, note).await?;
            report(&queue.name, "running", changed, output)
        }
    }
}

fn report(queue: &str, now: &str, changed: bool, output: &Output) -> Result<(), Failure> {
    match changed {
        true => note(format!("queue {queue} is now {now}")),
        false => note(format!("queue {queue} was already {now}")),
    }
    match output.format {
        Format::Json => output.json(&json!({"queue": queue, "changed": changed})),
        Format::Table | Format::Ids => Ok(()),
    }
}

async fn list(database: &Database, output: &Output) -> Result<(), Failure> {
    let admin = database.client.admin();
    let (now, queues) = (admin.now().await?, admin.queues().await?);
    match output.format {
        Format::Json => queues
            .iter()
            .try_for_each(|queue| output.json(&json::queue(queue))),
        Format::Ids => queues.iter().try_for_each(|queue| output.line(&queue.name)),
        Format::Table if queues.is_empty() => {
            note("no queues: none has work, is paused or is served by a live worker");
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
