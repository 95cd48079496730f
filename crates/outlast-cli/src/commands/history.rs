//! `outlast history` and `outlast export`: what happened in a run of a workflow.

use super::target::{find, target};
use crate::database::Database;
use crate::failure::Failure;
use crate::flow::said;
use crate::object::EventObject;
use crate::output::{Format, Output, note};
use crate::table::{Table, cell};
use crate::words::{self, harmless, rfc3339, shortened};
use clap::Args;
use outlast::limits::HISTORY_PAGE_MAX;
use outlast::workflow::EventDetail;
use outlast::{Client, Event, HistoryRequest, Instance, RunSummary, Target, Timestamp};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

/// How many come with one question.
const PAGE: usize = if HISTORY_PAGE_MAX < 1_000 {
    HISTORY_PAGE_MAX
} else {
    1_000
};

/// How much of what an event says one line shows.
const SAID_CHARS_MAX: usize = 120;

/// Arguments of `history`.
#[derive(Args, Debug)]
pub(crate) struct HistoryArgs {
    /// Which workflow: the id of an instance, or MACHINE/KEY
    #[arg(value_name = "ID|MACHINE/KEY", value_parser = target)]
    target: Target,
    /// Of this run; the present one unless said otherwise
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    run: Option<i32>,
    /// How many events at most
    #[arg(short = 'n', long, value_name = "N", value_parser = words::limit, default_value = "200")]
    limit: NonZeroUsize,
    /// All of them, however many there are
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Only those after this one: where the list before this one ended
    #[arg(long, value_name = "SEQ", default_value_t = 0, value_parser = clap::value_parser!(i32).range(0..))]
    after: i32,
}

/// Arguments of `export`.
#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    /// Which workflow: the id of an instance, or MACHINE/KEY
    #[arg(value_name = "ID|MACHINE/KEY", value_parser = target)]
    target: Target,
    /// This run; the present one unless said otherwise
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    run: Option<i32>,
    /// Write it to this file instead of stdout
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
}

pub(crate) async fn run(
    args: &HistoryArgs,
    database: &Database,
    output: &Output,
) -> Result<(), Failure> {
    let client = &database.client;
    let instance = find(client, &args.target).await?;
    let run = stored(client, &instance, args.run).await?;
    let now = client.now().await?;
    if output.format == Format::Table {
        output.line(heading(&instance, &run))?;
        output.line("")?;
    }
    let mut left = if args.all {
        usize::MAX
    } else {
        args.limit.get()
    };
    let (mut after, mut is_first) = (args.after, true);
    while left > 0 {
        let request = HistoryRequest {
            id: instance.id,
            run: run.run,
            after,
            max: left.min(PAGE),
        };
        let events = client.history(request).await?;
        let Some(last) = events.last() else {
            break;
        };
        (after, left) = (last.seq, left - events.len());
        print(&events, &run, now, is_first, output)?;
        is_first = false;
        if events.len() < request.max {
            break;
        }
    }
    if left == 0 && after < run.events {
        note(format!("there is more: --after {after}"));
    }
    Ok(())
}

pub(crate) async fn export(
    args: &ExportArgs,
    database: &Database,
    output: &Output,
) -> Result<(), Failure> {
    let client = &database.client;
    let instance = find(client, &args.target).await?;
    let run = stored(client, &instance, args.run).await?;
    let exported = client.export(instance.id, Some(run.run)).await?;
    let exported = exported.ok_or_else(|| none(&instance, args.run))?;
    let Some(file) = &args.to else {
        return output.json(&exported);
    };
    let text = serde_json::to_string(&exported);
    let text = text.map_err(|error| Failure::Failed(error.to_string()))?;
    std::fs::write(file, text + "\n").map_err(|error| {
        Failure::Failed(format!("{} cannot be written: {error}", file.display()))
    })?;
    note(format!(
        "run {} of instance {}, {} events",
        exported.run,
        instance.id,
        exported.events.len()
    ));
    Ok(())
}

/// The run that is meant, if its history is stored.
async fn stored(
    client: &Client,
    instance: &Instance,
    run: Option<i32>,
) -> Result<RunSummary, Failure> {
    let wanted = run.unwrap_or(instance.run);
    let runs = client.histories(instance.id).await?;
    let found = runs.into_iter().find(|it| it.run == wanted);
    found.ok_or_else(|| none(instance, run))
}

fn none(instance: &Instance, run: Option<i32>) -> Failure {
    let (id, machine) = (instance.id, &instance.machine);
    Failure::Refused(match (run, instance.has_history()) {
        (_, false) => format!(
            "instance {id} of {machine} has no history: it is not a workflow, or has not begun"
        ),
        (Some(run), true) if run > instance.run => format!(
            "instance {id} is in run {}; there is no run {run} yet",
            instance.run
        ),
        (Some(run), true) => {
            format!("the history of run {run} of instance {id} is not stored any more")
        }
        (None, true) => format!("instance {id} has just begun run {}", instance.run),
    })
}

/// `instance 42 fulfil/1, run 1 of 2, 14 events, began 2026-11-16T15:46:03.196089Z`
fn heading(it: &Instance, run: &RunSummary) -> String {
    harmless(&format!(
        "instance {} {}/{}, run {} of {}, {} events, began {}",
        it.id,
        it.machine,
        it.version,
        run.run,
        it.run,
        run.events,
        rfc3339(run.started_at)
    ))
}

/// How far into the run: to the millisecond within the first minute, where calls are told apart by it.
fn elapsed(since: Duration) -> String {
    match since < Duration::from_secs(60) {
        true => format!("{:.3} s", since.as_secs_f64()),
        false => outlast_core::span(since),
    }
}

fn print(
    events: &[Event],
    run: &RunSummary,
    now: Timestamp,
    is_first: bool,
    output: &Output,
) -> Result<(), Failure> {
    if output.format == Format::Json {
        let mut events = events.iter();
        return events.try_for_each(|event| output.json(&EventObject::of(event)));
    }
    let headings = ["seq", "after", "event", "call", "name", ""];
    let headings = if is_first { &headings[..] } else { &[] };
    let mut table = Table::new(output, headings);
    for event in events {
        let said = said(&EventDetail::of(event), now);
        table.row([
            cell(event.seq.to_string()),
            cell(elapsed(event.at.since(run.started_at))),
            cell(event.kind.as_str()),
            cell(event.call.map(|call| call.to_string()).unwrap_or_default()),
            cell(&event.name),
            cell(shortened(&said, SAID_CHARS_MAX)),
        ]);
    }
    output.table(&table)
}
