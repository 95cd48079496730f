//! `outlast tree`: an instance with its children and theirs.

use super::target::{find, target};
use crate::database::Database;
use crate::failure::Failure;
use crate::object::{self, InstanceObject};
use crate::output::{Format, Output, note};
use crate::words::{by_status, harmless};
use clap::Args;
use outlast::{Filter, Instance, ListRequest, RoundSummary, Target};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::pin::Pin;

/// How many are shown in all: a family may be larger than a screen or a memory.
const NODES_MAX: usize = 500;

/// Arguments of `tree`.
#[derive(Args, Debug)]
pub(crate) struct TreeArgs {
    /// The root: the id of an instance, or MACHINE/KEY
    #[arg(value_name = "ID|MACHINE/KEY", value_parser = target)]
    target: Target,
    /// How many generations below it, 10 at most
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=10))]
    depth: u8,
    /// How many children of one instance at most, the newest
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
    children: u16,
}

/// One instance and its children.
struct Node {
    instance: Instance,
    rounds: Vec<RoundSummary>,
    /// The newest of them, in the order of their ids.
    children: Vec<Node>,
    /// How many more are stored.
    more: u64,
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
    let root = find(&database.client, &args.target).await?;
    let mut left = NODES_MAX - 1;
    let root = grow(root, args.depth, args, database, &mut left).await?;
    if left == 0 {
        note(format!("only {NODES_MAX} of the family are shown"));
    }
    match output.format {
        Format::Json => output.json(&root.object()),
        Format::Ids => root.print_ids(output),
        Format::Table => {
            let waiting = database.client.explain(&root.instance).await?;
            output.line(format!("{}: {}", label(&root.instance), harmless(&waiting)))?;
            root.print_below("", output)
        }
    }
}

type Growing<'a> = Pin<Box<dyn Future<Output = Result<Node, Failure>> + 'a>>;

/// Children and theirs, while there is room for more nodes.
fn grow<'a>(
    instance: Instance,
    depth: u8,
    args: &'a TreeArgs,
    database: &'a Database,
    left: &'a mut usize,
) -> Growing<'a> {
    Box::pin(async move {
        let mut node = Node {
            rounds: Vec::new(),
            children: Vec::new(),
            more: 0,
            instance,
        };
        // Whoever never fanned out has no children to ask for.
        if node.instance.round == 0 {
            return Ok(node);
        }
        node.rounds = database.client.rounds(node.instance.id).await?;
        let stored = node.rounds.iter().flat_map(|round| &round.children);
        let stored: u64 = stored.map(|(_, children)| children).sum();
        if depth > 0 && *left > 0 {
            let limit = usize::from(args.children).min(*left);
            let children = newest_children(&node.instance, limit, database).await?;
            *left -= children.len();
            for child in children {
                let child = grow(child, depth - 1, args, database, left).await?;
                node.children.push(child);
            }
        }
        node.more = stored.saturating_sub(node.children.len() as u64);
        Ok(node)
    })
}

async fn newest_children(
    parent: &Instance,
    limit: usize,
    database: &Database,
) -> Result<Vec<Instance>, Failure> {
    let request = ListRequest {
        filter: Filter {
            parent: Some(parent.id),
            ..Filter::default()
        },
        before: None,
        limit,
    };
    let mut children = database.client.list(request).await?.instances;
    children.reverse();
    Ok(children)
}

fn label(it: &Instance) -> String {
    format!(
        "{} {}/{} {} at {}",
        it.id, it.machine, it.version, it.status, it.step
    )
}

impl Node {
    fn object(&self) -> NodeObject {
        NodeObject {
            instance: object::embedded(&InstanceObject::summary(&self.instance)),
            rounds: self.rounds.iter().map(object::round).collect(),
            children: self.children.iter().map(Node::object).collect(),
            more: self.more,
        }
    }

    fn print_ids(&self, output: &Output) -> Result<(), Failure> {
        output.line(self.instance.id.to_string())?;
        self.children
            .iter()
            .try_for_each(|child| child.print_ids(output))
    }

    fn print_below(&self, indent: &str, output: &Output) -> Result<(), Failure> {
        for round in &self.rounds {
            let counts = by_status(&round.children);
            output.line(format!("{indent}│  round {}: {counts}", round.round))?;
        }
        if self.more > 0 && !self.children.is_empty() {
            output.line(format!("{indent}├─ and {} older ones", self.more))?;
        }
        for (position, child) in self.children.iter().enumerate() {
            let is_last = position + 1 == self.children.len();
            let (branch, below) = if is_last {
                ("└─", "   ")
            } else {
                ("├─", "│  ")
            };
            output.line(format!("{indent}{branch} {}", label(&child.instance)))?;
            child.print_below(&format!("{indent}{below}"), output)?;
        }
        Ok(())
    }
}
