//! `outlast history` and `outlast export`: show the history of an instance, and export a run of a
//! workflow.

use super::target::{find, target};
use crate::database::Database;
use crate::failure::Failure;
use crate::format::{self, harmless, rfc3339, shortened};
use crate::json::{self, EventObject};
use crate::output::{Format, Output, note};
use crate::table::{Table, cell};
use crate::workflow_view::{self, describe, transitions};
use clap::Args;
use outlast::Client;
use outlast::store::limits::HISTORY_PAGE_MAX;
use outlast::store::{EventKind, Instance, RunSummary, Target, Timestamp};
use outlast::workflow::{EventDetail, TimelineEntry};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

/// Rows per query.
const PAGE: usize = if HISTORY_PAGE_MAX < 1_000 {
    HISTORY_PAGE_MAX
} else {
    1_000
};

/// The number of characters of an event's details in one line.
const DETAIL_CHARS_MAX: usize = 120;

/// Arguments of `history`.
#[derive(Args, Debug)]
pub(crate) struct HistoryArgs {
    /// A workflow, or a machine that records its history: the id of an instance, or MACHINE/KEY
    #[arg(value_name = "ID|MACHINE/KEY", value_parser = target)]
    target: Target,
    /// The run. Default: the current run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    run: Option<i32>,
    /// Maximum number of events
    #[arg(short = 'n', long, value_name = "N", value_parser = format::limit, default_value = "200")]
    limit: NonZeroUsize,
    /// All events
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Only events after this one: where the previous list ended
    #[arg(long, value_name = "SEQ", default_value_t = 0, value_parser = clap::value_parser!(i32).range(0..))]
    after: i32,
    /// List the children by call instead of the events; `--after` then names a call
    #[arg(long)]
    calls: bool,
}

impl HistoryArgs {
    fn at_most(&self) -> usize {
        match self.all {
            true => usize::MAX,
            false => self.limit.get(),
        }
    }
}

/// Arguments of `export`.
#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    /// A workflow: the id of an instance, or MACHINE/KEY
    #[arg(value_name = "ID|MACHINE/KEY", value_parser = target)]
    target: Target,
    /// The run. Default: the current run
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
    let admin = client.admin();
    let instance = find(client, &args.target).await?;
    let run = stored(client, &instance, args.run).await?;
    let now = admin.now().await?;
    if output.format == Format::Table {
        output.line(heading(&instance, &run))?;
        output.line("")?;
    }
    if args.calls {
        return print_calls(args, client, &instance, &run, output).await;
    }
    let mut left = args.at_most();
    let (mut after, mut is_first) = (args.after, true);
    while left > 0 {
        let max = left.min(PAGE);
        let entries = admin.timeline(&instance, run.run, after, max).await?;
        let Some(last) = entries.last() else {
            break;
        };
        (after, left) = (last.seq(), left - entries.len());
        print(&entries, (&instance, &run), now, is_first, output)?;
        is_first = false;
        if !entries.more {
            return Ok(());
        }
    }
    if left == 0
        && !admin
            .timeline(&instance, run.run, after, 1)
            .await?
            .is_empty()
    {
        note(format!("more: --after {after}"));
    }
    Ok(())
}

/// Prints the children of a run, one line per call.
async fn print_calls(
    args: &HistoryArgs,
    client: &Client,
    instance: &Instance,
    run: &RunSummary,
    output: &Output,
) -> Result<(), Failure> {
    let limit = args.at_most();
    let more = limit.saturating_add(1);
    let admin = client.admin();
    let calls = admin.child_calls(instance, run.run, args.after, more);
    let calls = calls.await?;
    let shown = &calls[..calls.len().min(limit)];
    if output.format == Format::Json {
        let mut shown = shown.iter();
        shown.try_for_each(|call| output.json(&json::call(call)))?;
    } else {
        let headings = ["call", "kind", "machine", "child", "status", "policy", ""];
        let mut table = Table::new(output, &headings);
        for call in shown {
            table.row([
                cell(call.call.to_string()),
                cell(call.kind),
                cell(format!("{}/{}", call.machine, call.version)),
                cell(workflow_view::child(call)),
                cell(workflow_view::child_status(call)),
                cell(call.on_parent_close.as_str()),
                cell(shortened(&workflow_view::fate(call), DETAIL_CHARS_MAX)),
            ]);
        }
        output.table(&table)?;
    }
    if let Some(last) = shown.last().filter(|_| calls.len() > limit) {
        note(format!("more: --after {}", last.call));
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
    let exported = client.admin().export(instance.id, Some(run.run)).await?;
    let exported = exported.ok_or_else(|| nothing_to_export(&instance))?;
    let Some(file) = &args.to else {
        return output.json(&exported);
    };
    let text = serde_json::to_string(&exported);
    let text = text.map_err(|error| Failure::Failed(error.to_string()))?;
    std::fs::write(file, text + "\n")
        .map_err(|error| Failure::Failed(format!("cannot write {}: {error}", file.display())))?;
    note(format!(
        "exported run {} of instance {}: {} events",
        exported.run,
        instance.id,
        exported.events.len()
    ));
    Ok(())
}

/// Returns the requested run if its history is stored.
async fn stored(
    client: &Client,
    instance: &Instance,
    run: Option<i32>,
) -> Result<RunSummary, Failure> {
    let wanted = run.unwrap_or(instance.run);
    let runs = client.admin().histories(instance.id).await?;
    let found = runs.into_iter().find(|it| it.run == wanted);
    found.ok_or_else(|| none(instance, run))
}

fn none(instance: &Instance, run: Option<i32>) -> Failure {
    let (id, machine) = (instance.id, &instance.machine);
    Failure::Refused(match (run, instance.has_history()) {
        (_, false) => format!(
            "instance {id} of {machine} has no history: the machine records none, or it has not started"
        ),
        (Some(run), true) if run > instance.run => format!(
            "instance {id} has no run {run} yet; its current run is {}",
            instance.run
        ),
        (Some(run), true) => {
            format!("the history of run {run} of instance {id} is no longer stored")
        }
        (None, true) => format!("run {} of instance {id} has no events yet", instance.run),
    })
}

/// The history of a machine exists, but it cannot be replayed.
fn nothing_to_export(instance: &Instance) -> Failure {
    let (id, machine) = (instance.id, &instance.machine);
    Failure::Refused(format!(
        "instance {id} of {machine} is not a workflow; use `outlast history {id} --all -o json`"
    ))
}

/// Formats `instance 42 fulfil/1, run 1 of 2, 14 events, began 2026-11-16T15:46:03.196089Z` for a
/// workflow, or `instance 43 checkout/1, 5 transitions, began 2026-11-16T15:46:03.196089Z`.
fn heading(it: &Instance, run: &RunSummary) -> String {
    let length = match is_of_machine(it, run) {
        true => transitions(run.events),
        false => format!("run {} of {}, {} events", run.run, it.run, run.events),
    };
    harmless(&format!(
        "instance {} {}/{}, {length}, began {}",
        it.id,
        it.machine,
        it.version,
        rfc3339(run.started_at)
    ))
}

/// Whether the run is the history of a machine.
///
/// A timeout ends the histories of both kinds with the same event.
fn is_of_machine(it: &Instance, run: &RunSummary) -> bool {
    run.last == EventKind::Transitioned || run.last == EventKind::TimedOut && !it.is_workflow()
}

/// Formats the time since the run began, with milliseconds in the first minute, where calls are
/// close together.
fn elapsed(since: Duration) -> String {
    match since < Duration::from_secs(60) {
        true => format!("{:.3} s", since.as_secs_f64()),
        false => outlast_core::span(since),
    }
}

fn print(
    entries: &[TimelineEntry],
    (instance, run): (&Instance, &RunSummary),
    now: Timestamp,
    is_first: bool,
    output: &Output,
) -> Result<(), Failure> {
    if output.format == Format::Json {
        let mut entries = entries.iter();
        return entries.try_for_each(|entry| output.json(&EventObject::of(entry, run.run)));
    }
    let headings = match is_of_machine(instance, run) {
        true => ["seq", "after", "step", "outcome", "to", ""],
        false => ["seq", "after", "event", "call", "name", ""],
    };
    let headings = if is_first { &headings[..] } else { &[] };
    let mut table = Table::new(output, headings);
    for entry in entries {
        let [what, where_to, name] = columns(entry, run.run);
        table.row([
            cell(entry.seq().to_string()),
            cell(elapsed(entry.at().since(run.started_at))),
            cell(what),
            cell(where_to),
            cell(name),
            cell(shortened(&describe(entry, run.run, now), DETAIL_CHARS_MAX)),
        ]);
    }
    output.table(&table)
}

/// Returns the event, its call and its name for a workflow; the step, the outcome and the next
/// step for a machine.
fn columns(entry: &TimelineEntry, run: i32) -> [String; 3] {
    let (call, name) = match entry {
        TimelineEntry::Event(event) => {
            if let Some(it) = EventDetail::of(event).transition {
                let to = it.to.unwrap_or_default();
                return [event.name.clone(), it.outcome.into_owned(), to];
            }
            (event.call, event.name.clone())
        }
        TimelineEntry::PolicyApplied(policy) => {
            let origin = policy.origin.as_ref();
            let name = origin.map(|it| it.name.clone()).unwrap_or_default();
            (policy.call_in(run), name)
        }
    };
    let call = call.map(|call| call.to_string()).unwrap_or_default();
    [entry.kind().to_owned(), call, name]
}
