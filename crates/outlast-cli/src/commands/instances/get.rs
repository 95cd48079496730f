//! `outlast get`: shows one instance.

use super::target::{find, target};
use crate::database::Database;
use crate::failure::Failure;
use crate::format::{by_status, harmless, relative, rfc3339, shortened};
use crate::join::{cancel, meter, policy};
use crate::json::{self, InstanceObject, SignalObject, shown_key};
use crate::output::{Format, Output, note};
use crate::table::{Table, cell};
use crate::workflow_view;
use clap::Args;
use outlast::Status;
use outlast::store::{
    Instance, Json, Liveness, Operation, RoundSummary, RunSummary, SignalRow, Target, Timestamp,
    Verb,
};
use outlast::workflow::{GroupWait, Origin, Waits};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The number of payload characters in one line.
const PAYLOAD_CHARS_MAX: usize = 100;

/// The number of close actions shown; there may be a hundred thousand.
const CLOSE_ACTIONS_SHOWN: usize = 20;

/// The number of open calls shown.
const WAITS_SHOWN: usize = 20;

/// Arguments of `get`.
#[derive(Args, Debug)]
pub(crate) struct GetArgs {
    /// The id of an instance, or MACHINE/KEY
    #[arg(value_name = "ID|MACHINE/KEY", value_parser = target)]
    target: Target,
    /// Print only its state, as stored
    #[arg(long, group = "document")]
    state: bool,
    /// Print only its result, as stored
    #[arg(long, group = "document")]
    result: bool,
    /// Print only the value of its error, as stored
    #[arg(long, group = "document")]
    error_value: bool,
}

/// An instance and its related rows.
struct InstanceDetails {
    instance: Instance,
    waiting: String,
    liveness: Liveness,
    signals: Vec<SignalRow>,
    rounds: Vec<RoundSummary>,
    /// What a workflow waits for; `None` for machines.
    waits: Option<Waits>,
    /// The runs whose history is stored.
    runs: Vec<RunSummary>,
    /// The call that started it, if its parent is a workflow.
    origin: Option<Origin>,
    operations: Vec<Operation>,
    /// The first page of operations on its children that it caused.
    close_actions: Vec<Operation>,
    now: Timestamp,
}

#[derive(Serialize)]
struct InstanceDetailsObject {
    instance: Option<Box<RawValue>>,
    signals: Vec<SignalObject>,
    rounds: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flow: Option<Value>,
    runs: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<Value>,
    operations: Vec<Value>,
    close_actions: Vec<Value>,
}

pub(crate) async fn run(
    args: &GetArgs,
    database: &Database,
    output: &Output,
) -> Result<(), Failure> {
    let client = &database.client;
    let instance = find(client, &args.target).await?;
    if args.state {
        return output.document(instance.state.as_str());
    }
    if args.result {
        return print_result(&instance, output);
    }
    if args.error_value {
        return print_error_value(&instance, output);
    }
    if output.format == Format::Ids {
        return output.line(instance.id.to_string());
    }
    let (admin, id) = (client.admin(), instance.id);
    let waits = match instance.is_workflow() {
        true => Some(admin.waits(&instance).await?),
        false => None,
    };
    let runs = match instance.has_history() {
        true => admin.histories(id).await?,
        false => Vec::new(),
    };
    let explained = admin.explain_with(&instance, waits.clone()).await?;
    let details = InstanceDetails {
        waiting: explained.sentence,
        liveness: explained.liveness,
        waits,
        runs,
        origin: admin.origin(&instance).await?,
        signals: admin.signals(id, None).await?.rows,
        rounds: admin.rounds(id).await?,
        operations: admin.operations(Some(id)).await?,
        close_actions: match instance.round {
            0 => Vec::new(),
            _ => admin.close_actions(id, None).await?,
        },
        now: admin.now().await?,
        instance,
    };
    match output.format {
        Format::Json => output.json(&details.object()),
        Format::Table | Format::Ids => details.print(output),
    }
}

fn print_result(it: &Instance, output: &Output) -> Result<(), Failure> {
    if let Some(result) = result(it) {
        return output.document(result.as_str());
    }
    let (id, status) = (it.id, it.status);
    let hint = error_value(it).map(|_| "; --error-value prints the value of its error");
    Err(Failure::Refused(format!(
        "instance {id} has no result: it is {status}{}",
        hint.unwrap_or_default()
    )))
}

fn print_error_value(it: &Instance, output: &Output) -> Result<(), Failure> {
    if let Some(value) = error_value(it) {
        return output.document(value.as_str());
    }
    let (id, status) = (it.id, it.status);
    let reason = match status == Status::Failed {
        true => "its error is only a text".to_owned(),
        false => format!("it is {status}"),
    };
    Err(Failure::Refused(format!(
        "instance {id} has no error value: {reason}"
    )))
}

/// Returns the output of a done instance.
///
/// A failed one has the value of its error in the same place (docs/decisions/0048).
fn result(it: &Instance) -> Option<&Json> {
    it.result.as_ref().filter(|_| it.status == Status::Done)
}

/// Returns the value of the error of a failed instance, if it failed with one.
fn error_value(it: &Instance) -> Option<&Json> {
    it.result.as_ref().filter(|_| it.status == Status::Failed)
}

impl InstanceDetails {
    fn object(&self) -> InstanceDetailsObject {
        let instance = InstanceObject::full(&self.instance)
            .waiting(self.waiting.clone())
            .liveness(self.liveness);
        InstanceDetailsObject {
            instance: json::embedded(&instance),
            signals: self.signals.iter().map(SignalObject::of).collect(),
            rounds: self.rounds.iter().map(json::round).collect(),
            flow: self.waits.as_ref().map(json::waits),
            runs: self.runs.iter().map(json::run).collect(),
            origin: self.origin.as_ref().map(json::origin),
            operations: self.operations.iter().map(json::operation).collect(),
            close_actions: self.close_actions.iter().map(json::operation).collect(),
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
        if let Some(result) = result(it) {
            output.line(format!("result  {}", harmless(result.as_str())))?;
        }
        if let Some(error) = &it.last_error {
            output.line(format!("error   {}", harmless(error)))?;
        }
        if let Some(value) = error_value(it) {
            output.line(format!("error value  {}", harmless(value.as_str())))?;
        }
        self.print_blocked(output)?;
        self.print_waits(output)?;
        self.print_groups(output)?;
        self.print_handled(output)?;
        self.print_runs(output)?;
        self.print_rounds(output)?;
        self.print_close_actions(output)?;
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
            ("liveness", self.liveness.as_str().to_owned()),
            ("queue", format!("{}, priority {}", it.queue, it.priority)),
            ("revision", it.revision.to_string()),
            ("attempt", it.attempt.to_string()),
            ("inserted", at(it.inserted_at)),
            ("updated", at(it.updated_at)),
        ];
        let is_live = !it.status.is_terminal();
        let optional = [
            history(it),
            ("crashes", (it.crashes > 0).then(|| it.crashes.to_string())),
            ("cancel", it.cancel.as_ref().map(|it| cancel(it, self.now))),
            ("key", shown_key(&it.correlation_key)),
            ("partition key", shown_key(&it.partition_key)),
            ("parent", parent(it)),
            (
                "started by",
                self.origin.as_ref().map(workflow_view::origin),
            ),
            (
                "policy",
                it.parent.map(|_| policy(it.on_parent_close).to_owned()),
            ),
            ("window", it.held.map(|held| place(held).to_owned())),
            ("join", meter(it, self.now)),
            ("worker", it.locked_by.map(|worker| worker.to_string())),
            ("times out", it.timeout_at.filter(|_| is_live).map(at)),
            (
                "run times out",
                it.run_timeout_at.filter(|_| is_live).map(at),
            ),
            ("finished", it.finished_at.map(at)),
        ];
        let there = optional.into_iter();
        facts.extend(there.filter_map(|(name, value)| Some((name, value?))));
        facts
    }

    /// Prints both sides of a mismatch on separate lines, because the sentence above truncates
    /// them.
    fn print_blocked(&self, output: &Output) -> Result<(), Failure> {
        let blocked = self.waits.as_ref().and_then(|waits| waits.blocked.as_ref());
        let Some(blocked) = blocked else {
            return Ok(());
        };
        output.line("")?;
        let mut table = Table::new(output, &[]);
        let since = relative(blocked.since, self.now);
        table.row([cell("blocked"), cell(format!("since {since}"))]);
        table.row([cell("the history has"), cell(&blocked.expected)]);
        table.row([cell("the code has"), cell(&blocked.found)]);
        output.table(&table)
    }

    fn print_groups(&self, output: &Output) -> Result<(), Failure> {
        let groups = self.waits.iter().flat_map(|waits| &waits.groups);
        let groups: Vec<&GroupWait> = groups.take(WAITS_SHOWN).collect();
        if groups.is_empty() {
            return Ok(());
        }
        output.line("")?;
        let headings = ["group", "call", "of", "open", "window", "until"];
        let mut table = Table::new(output, &headings);
        for group in groups {
            let until = group.deadline.map(|at| relative(at, self.now));
            table.row([
                cell(workflow_view::kind(group.is_selection)),
                cell(group.call.to_string()),
                cell(group.members),
                cell(format!("{} of {}", group.open, group.size)),
                cell(workflow_view::window(group)),
                cell(until.unwrap_or_default()),
            ]);
        }
        output.table(&table)
    }

    fn print_handled(&self, output: &Output) -> Result<(), Failure> {
        let handled = self.waits.as_ref().map(|waits| &waits.handled[..]);
        let handled = handled.unwrap_or_default();
        if handled.is_empty() {
            return Ok(());
        }
        output.line("")?;
        let mut table = Table::new(output, &["handled failure", "call", "when", "reason"]);
        let earlier = handled.len().saturating_sub(WAITS_SHOWN);
        for failure in &handled[earlier..] {
            let call = failure.call.map(|call| call.to_string());
            table.row([
                cell(&failure.name),
                cell(call.unwrap_or_default()),
                cell(relative(failure.at, self.now)),
                cell(shortened(&failure.reason, PAYLOAD_CHARS_MAX)),
            ]);
        }
        output.table(&table)?;
        if earlier > 0 {
            let all = handled.len();
            note(format!(
                "showing the last {WAITS_SHOWN} of {all} handled failures; `-o json` shows all"
            ));
        }
        Ok(())
    }

    fn print_waits(&self, output: &Output) -> Result<(), Failure> {
        let Some(waits) = self.waits.as_ref().filter(|waits| !waits.open.is_empty()) else {
            return Ok(());
        };
        output.line("")?;
        let headings = [
            "waits for",
            "call",
            "name",
            "target",
            "group",
            "since",
            "until",
        ];
        let mut table = Table::new(output, &headings);
        for wait in waits.open.iter().take(WAITS_SHOWN) {
            let until = wait.deadline.map(|at| relative(at, self.now));
            table.row([
                cell(match wait.is_awaited {
                    true => wait.kind.to_owned(),
                    false => format!("{} (not awaited)", wait.kind),
                }),
                cell(wait.call.to_string()),
                cell(&wait.name),
                cell(workflow_view::target(wait)),
                cell(
                    wait.group
                        .as_ref()
                        .map(workflow_view::place)
                        .unwrap_or_default(),
                ),
                cell(relative(wait.since, self.now)),
                cell(until.unwrap_or_default()),
            ]);
        }
        output.table(&table)?;
        if waits.open.len() > WAITS_SHOWN {
            let open = waits.open.len();
            note(format!(
                "showing {WAITS_SHOWN} of {open} open calls; `-o json` shows all"
            ));
        }
        if !waits.is_whole {
            note("the history or the children were too large to read completely");
        }
        Ok(())
    }

    fn print_runs(&self, output: &Output) -> Result<(), Failure> {
        if self.runs.len() < 2 {
            return Ok(());
        }
        output.line("")?;
        let mut table = Table::new(output, &["run", "events", "began", "last event", "when"]);
        for run in &self.runs {
            table.row([
                cell(run.run.to_string()),
                cell(run.events.to_string()),
                cell(relative(run.started_at, self.now)),
                cell(run.last.as_str()),
                cell(relative(run.last_at, self.now)),
            ]);
        }
        output.table(&table)
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

    fn print_close_actions(&self, output: &Output) -> Result<(), Failure> {
        if self.close_actions.is_empty() {
            return Ok(());
        }
        output.line("")?;
        let mut table = Table::new(output, &["child", "was", "by", "when", "reason"]);
        for closure in self.close_actions.iter().take(CLOSE_ACTIONS_SHOWN) {
            let child = closure.instance.map(|id| id.to_string());
            table.row([
                cell(child.unwrap_or_default()),
                cell(close_action(closure)),
                cell(&closure.by),
                cell(relative(closure.at, self.now)),
                cell(closure.reason.as_deref().unwrap_or_default()),
            ]);
        }
        output.table(&table)?;
        if self.close_actions.len() > CLOSE_ACTIONS_SHOWN {
            note(format!(
                "showing the first {CLOSE_ACTIONS_SHOWN} close actions; `-o json` shows more"
            ));
        }
        Ok(())
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
                match signal.wants_reply {
                    true => cell(format!("{} (update)", signal.name)),
                    false => cell(&signal.name),
                },
                cell(relative(signal.inserted_at, self.now)),
                cell(consumed.unwrap_or_else(|| "not yet".to_owned())),
                cell(shown_key(&signal.dedup_key).unwrap_or_default()),
                cell(shortened(payload.unwrap_or_default(), PAYLOAD_CHARS_MAX)),
            ]);
        }
        output.table(&table)?;
        if self.signals.len() == outlast::store::limits::PAGE_MAX {
            note("there may be more signals");
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

/// Formats the current run of a workflow, or the number of recorded transitions of a machine.
fn history(it: &Instance) -> (&'static str, Option<String>) {
    let events = it.events;
    match it.is_workflow() {
        true => ("run", Some(format!("{}, {events} events", it.run))),
        false => (
            "history",
            it.has_history().then(|| workflow_view::transitions(events)),
        ),
    }
}

fn parent(it: &Instance) -> Option<String> {
    let parent = it.parent?;
    let position = it.position.map(|position| format!(", position {position}"));
    let position = position.unwrap_or_default();
    Some(format!("{}, round {}{position}", parent.id, parent.round))
}

fn place(held: bool) -> &'static str {
    match held {
        true => "held, waits for a slot in the window",
        false => "has a slot in the window",
    }
}

/// Formats `asked to cancel`, with the child's status before.
fn close_action(closure: &Operation) -> String {
    let what = match closure.verb {
        Verb::Cancel => "asked to cancel",
        Verb::Terminate => "terminated",
        // A parent causes no other operation on its children.
        Verb::Retry | Verb::Pause | Verb::Resume | Verb::Delete | Verb::Repair => {
            closure.verb.as_str()
        }
    };
    match closure.status_before {
        Some(before) => format!("{what} when {before}"),
        None => what.to_owned(),
    }
}
