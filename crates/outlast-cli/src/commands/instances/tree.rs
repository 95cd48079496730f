//! `outlast tree`: shows an instance and its descendants.

use super::target::{find, target};
use crate::database::Database;
use crate::failure::Failure;
use crate::format::{by_status, harmless};
use crate::join::{meter, policy};
use crate::json::{self, InstanceObject};
use crate::output::{Format, Output, note};
use clap::Args;
use outlast::client::{Tree, TreeLimits};
use outlast::store::{ClosePolicy, Instance, Target, Timestamp};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The maximum number of nodes: a family may exceed the screen and the memory.
const NODES_MAX: usize = 500;

/// Arguments of `tree`.
#[derive(Args, Debug)]
pub(crate) struct TreeArgs {
    /// The root: the id of an instance, or MACHINE/KEY
    #[arg(value_name = "ID|MACHINE/KEY", value_parser = target)]
    target: Target,
    /// The number of levels below it, at most 10
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=10))]
    depth: u8,
    /// The maximum number of children per instance, the newest first
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
    children: u16,
}

#[derive(Serialize)]
struct NodeObject {
    instance: Option<Box<RawValue>>,
    rounds: Vec<Value>,
    children: Vec<NodeObject>,
    more: u64,
}

pub(crate) async fn run(
    args: &TreeArgs,
    database: &Database,
    output: &Output,
) -> Result<(), Failure> {
    let client = &database.client;
    let root = find(client, &args.target).await?.id;
    let limits = TreeLimits {
        depth: args.depth,
        children: args.children.into(),
        members: NODES_MAX,
    };
    let gone = || Failure::NotFound(format!("instance {root} was deleted"));
    let admin = client.admin();
    let root = admin.tree(root, limits).await?.ok_or_else(gone)?;
    if root.members() == NODES_MAX {
        note(format!("showing only {NODES_MAX} instances of the family"));
    }
    match output.format {
        Format::Json => output.json(&object(&root)),
        Format::Ids => print_ids(&root, output),
        Format::Table => {
            let waiting = admin.explain(&root.instance).await?;
            let now = admin.now().await?;
            output.line(format!("{}: {}", label(&root.instance), harmless(&waiting)))?;
            print_below(&root, "", now, output)
        }
    }
}

fn label(it: &Instance) -> String {
    let (id, machine, version, status) = (it.id, &it.machine, it.version, it.status);
    let mut label = match it.is_workflow() {
        true => format!("{id} {machine}/{version} run {} {status}", it.run),
        false => format!("{id} {machine}/{version} {status} at {}", it.step),
    };
    let marks = marks(it);
    if !marks.is_empty() {
        label += &format!(" ({})", marks.join(", "));
    }
    label
}

/// Returns the remarks on a live instance besides its status.
fn marks(it: &Instance) -> Vec<&'static str> {
    let mut marks = Vec::new();
    if it.status.is_terminal() {
        return marks;
    }
    if it.held == Some(true) {
        marks.push("held");
    }
    match it.cancel.as_ref().map(|cancel| cancel.answered) {
        Some(false) => marks.push("cancel requested"),
        Some(true) => marks.push("cancel requested, handled"),
        None => {}
    }
    match it.on_parent_close {
        ClosePolicy::Abandon => {}
        // An instance that was asked to cancel is not asked again.
        ClosePolicy::RequestCancel if it.cancel.is_some() => {}
        ClosePolicy::RequestCancel | ClosePolicy::Terminate => {
            marks.push(policy(it.on_parent_close));
        }
    }
    marks
}

fn object(tree: &Tree) -> NodeObject {
    NodeObject {
        instance: json::embedded(&InstanceObject::summary(&tree.instance)),
        rounds: tree.rounds.iter().map(json::round).collect(),
        children: tree.children.iter().map(object).collect(),
        more: tree.more,
    }
}

fn print_ids(tree: &Tree, output: &Output) -> Result<(), Failure> {
    output.line(tree.instance.id.to_string())?;
    let mut children = tree.children.iter();
    children.try_for_each(|child| print_ids(child, output))
}

fn print_below(tree: &Tree, indent: &str, now: Timestamp, output: &Output) -> Result<(), Failure> {
    for round in &tree.rounds {
        let counts = by_status(&round.children);
        output.line(format!("{indent}│  round {}: {counts}", round.round))?;
    }
    // The join belongs to the last round.
    if let Some(meter) = meter(&tree.instance, now) {
        output.line(format!("{indent}│  {meter}"))?;
    }
    if tree.more > 0 && !tree.children.is_empty() {
        output.line(format!("{indent}├─ {} older children", tree.more))?;
    }
    for (position, child) in tree.children.iter().enumerate() {
        let is_last = position + 1 == tree.children.len();
        let (branch, below) = if is_last {
            ("└─", "   ")
        } else {
            ("├─", "│  ")
        };
        let position = child.instance.position.unwrap_or_default();
        output.line(format!(
            "{indent}{branch} {position}: {}",
            label(&child.instance)
        ))?;
        print_below(child, &format!("{indent}{below}"), now, output)?;
    }
    Ok(())
}
