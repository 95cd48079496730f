//! `outlast get`: everything about one instance.

use super::target::{find, target};
use crate::database::Database;
use crate::failure::Failure;
use crate::object::{self, InstanceObject, SignalObject};
use crate::output::{Format, Output, note};
use crate::table::{Table, cell};
use crate::words::{by_status, harmless, relative, rfc3339, shortened};
use clap::Args;
use outlast::{Instance, Operation, RoundSummary, SignalRow, Target, Timestamp};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// How much of a payload one line shows.
const PAYLOAD_CHARS_MAX: usize = 100;

/// Arguments of `get`.
#[derive(Args, Debug)]
pub(crate) struct GetArgs {
    /// Which one: the id of an instance, or MACHINE/KEY
    #[arg(value_name = "ID|MACHINE/KEY", value_parser = target)]
    target: Target,
    /// Print nothing but its state, as it is stored
    #[arg(long, conflicts_with = "result")]
    state: bool,
    /// Print nothing but its result, as it is stored
    #[arg(long)]
    result: bool,
}

/// An instance and what is stored around it.
struct Seen {
    instance: Instance,
    waiting: String,
    signals: Vec<SignalRow>,
    rounds: Vec<RoundSummary>,
    operations: Vec<Operation>,
    now: Timestamp,
}

#[derive(Serialize)]
struct SeenObject {
    instance: Option<Box<RawValue>>,
    signals: Vec<SignalObject>,
    rounds: Vec<Value>,
    operations: Vec<Value>,
}

pub(crate) async fn run(
    args: &GetArgs,
    database: &Database,
    output: &Output,
) -> Result<(), Failure> {
    let client = &database.client;
    let instance = find(client, &args.target).await?;
    if args.state {
        return output.line(instance.state.as_str());
    }
    if args.result {
        return print_result(&instance, output);
    }
    if output.format == Format::Ids {
        return output.line(instance.id.to_string());
    }
    let id = instance.id;
    let seen = Seen {
        waiting: client.explain(&instance).await?,
        signals: client.signals(id, None).await?,
        rounds: database.client.rounds(id).await?,
        operations: client.operations(Some(id)).await?,
        now: client.now().await?,
        instance,
    };
    match output.format {
        Format::Json => output.json(&seen.object()),
        Format::Table | Format::Ids => seen.print(output),
    }
}

fn print_result(it: &Instance, output: &Output) -> Result<(), Failure> {
    match &it.result {
        Some(result) => output.line(result.as_str()),
        None => Err(Failure::Refused(format!(
            "instance {} has no result: it is {}",
            it.id, it.status
        ))),
    }
}

impl Seen {
    fn object(&self) -> SeenObject {
        let instance = InstanceObject::full(&self.instance).waiting(self.waiting.clone());
        SeenObject {
            instance: object::embedded(&instance),
            signals: self.signals.iter().map(SignalObject::of).collect(),
            rounds: self.rounds.iter().map(object::round).collect(),
            operations: self.operations.iter().map(object::operation).collect(),
        }
    }

    fn print(&self, output: &Output) -> Result<(), Failure> {
        let it = &self.instance;
        output.line(format!("instance {} {}", it.id, harmless(&self.waiting)))?;
        output.line("")?;
        let mut table = Table::new(output, &[]);
        for (name, value) in self.facts() {
            table.row([cell(name), cell(value)]);
        }
        output.table(&table)?;
        output.line("")?;
        output.line(format!("state   {}", harmless(it.state.as_str())))?;
        if let Some(result) = &it.result {
            output.line(format!("result  {}", harmless(result.as_str())))?;
        }
        if let Some(error) = &it.last_error {
            output.line(format!("error   {}", harmless(error)))?;
        }
        self.print_rounds(output)?;
        self.print_signals(output)?;
        self.print_operations(output)
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let it = &self.instance;
        let at = |at: Timestamp| format!("{} ({})", rfc3339(at), relative(at, self.now));
        let mut facts = vec![
            ("machine", format!("{} version {}", it.machine, it.version)),
            ("step", it.step.clone()),
            ("status", it.status.to_string()),
            ("queue", format!("{}, priority {}", it.queue, it.priority)),
            ("revision", it.revision.to_string()),
            ("attempt", it.attempt.to_string()),
            ("inserted", at(it.inserted_at)),
            ("updated", at(it.updated_at)),
        ];
        let parent = it.parent;
        let parent = parent.map(|parent| format!("{}, round {}", parent.id, parent.round));
        let optional = [
            ("crashes", (it.crashes > 0).then(|| it.crashes.to_string())),
            ("key", it.correlation_key.clone()),
            ("partition key", it.partition_key.clone()),
            ("parent", parent),
            ("worker", it.locked_by.map(|worker| worker.to_string())),
            ("finished", it.finished_at.map(at)),
        ];
        let there = optional.into_iter();
        facts.extend(there.filter_map(|(name, value)| Some((name, value?))));
        facts
    }

    fn print_rounds(&self, output: &Output) -> Result<(), Failure> {
        if self.rounds.is_empty() {
            return Ok(());
        }
        output.line("")?;
        let mut table = Table::new(output, &["round", "children"]);
        for round in &self.rounds {
            table.row([
                cell(round.round.to_string()),
                cell(by_status(&round.children)),
            ]);
        }
        output.table(&table)
    }

    fn print_signals(&self, output: &Output) -> Result<(), Failure> {
        if self.signals.is_empty() {
            return Ok(());
        }
        output.line("")?;
        let headings = ["signal", "arrived", "consumed", "dedup key", "payload"];
        let mut table = Table::new(output, &headings);
        for signal in &self.signals {
            let payload = signal.payload.as_ref().map(|payload| payload.as_str());
            let consumed = signal.consumed_at.map(|at| relative(at, self.now));
            table.row([
                cell(&signal.name),
                cell(relative(signal.inserted_at, self.now)),
                cell(consumed.unwrap_or_else(|| "not yet".to_owned())),
                cell(signal.dedup_key.as_deref().unwrap_or_default()),
                cell(shortened(payload.unwrap_or_default(), PAYLOAD_CHARS_MAX)),
            ]);
        }
        output.table(&table)?;
        if self.signals.len() == outlast::limits::PAGE_MAX {
            note("there may be more signals than these");
        }
        Ok(())
    }

    fn print_operations(&self, output: &Output) -> Result<(), Failure> {
        if self.operations.is_empty() {
            return Ok(());
        }
        output.line("")?;
        let mut table = Table::new(output, &["operation", "by", "when", "was", "reason"]);
        for operation in &self.operations {
            let before = operation.status_before.map(|status| status.to_string());
            table.row([
                cell(operation.verb.as_str()),
                cell(&operation.by),
                cell(relative(operation.at, self.now)),
                cell(before.unwrap_or_default()),
                cell(operation.reason.as_deref().unwrap_or_default()),
            ]);
        }
        output.table(&table)
    }
}
