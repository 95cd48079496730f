//! `outlast cancel` and `outlast terminate`: for single instances, or for whole trees.

use super::bulk::{self, BulkArgs, confirm, read_ids};
use super::cascade::{CascadeProgress, cascade_to_descendants};
use super::family_count::FamilyCount;
use super::verb::Verb;
use crate::database::Database;
use crate::failure::Failure;
use crate::json;
use crate::output::{Format, Output, note};
use clap::Args;
use outlast::{Client, InstanceId, Note};
use serde_json::json;
use std::collections::BTreeSet;

/// Arguments of `cancel` and `terminate`.
#[derive(Args, Debug)]
pub(crate) struct EndArgs {
    #[command(flatten)]
    bulk: BulkArgs,
    /// Also end all descendants, whatever their close policies. Counts them and asks for
    /// confirmation; needs ids
    #[arg(long)]
    tree: bool,
}

/// How to end instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Asks them to end.
    Cancel,
    /// Ends them at once.
    Terminate,
}

impl Ending {
    fn verb(self) -> Verb {
        match self {
            Ending::Cancel => Verb::Cancel,
            Ending::Terminate => Verb::Terminate,
        }
    }

    /// Ends the root and leaves a cascade row for its descendants, also if the root had already
    /// finished.
    async fn perform(self, client: &Client, root: InstanceId, note: Note) -> Result<(), Failure> {
        let admin = client.admin();
        match self {
            Ending::Cancel => admin.cancel_tree(root, note).await.map(|_| ())?,
            Ending::Terminate => admin.terminate_tree(root, note).await.map(|_| ())?,
        }
        Ok(())
    }
}

pub(crate) async fn run(
    ending: Ending,
    args: &EndArgs,
    database: &Database,
    output: &Output,
) -> Result<(), Failure> {
    match args.tree {
        true => families(ending, &args.bulk, database, output).await,
        false => bulk::run(ending.verb(), &args.bulk, database, output).await,
    }
}

async fn families(
    ending: Ending,
    args: &BulkArgs,
    database: &Database,
    output: &Output,
) -> Result<(), Failure> {
    let client = &database.client;
    let family = FamilyCount::of(client, roots(ending, args, client).await?).await?;
    for id in family.missing() {
        note(format!("instance {id} does not exist"));
    }
    if args.dry_run {
        family.print_counts(output)?;
        return family.all_found();
    }
    if family.roots().is_empty() {
        return family.all_found();
    }
    if !family.may_live() {
        return Err(Failure::Refused(format!(
            "no live instances in {}",
            family.subject()
        )));
    }
    confirm(&family.question(ending.verb()), args.yes)?;
    for root in family.roots() {
        let note = args.operator.note();
        ending.perform(client, *root, note).await?;
    }
    let progress = cascade_to_descendants(ending.verb(), database).await?;
    if progress == CascadeProgress::Partial {
        note("not all descendants have been reached yet; engines continue in the background");
    }
    print(ending, &family, progress, output)?;
    family.all_found()
}

/// Returns the ids without duplicates.
async fn roots(
    ending: Ending,
    args: &BulkArgs,
    client: &Client,
) -> Result<BTreeSet<InstanceId>, Failure> {
    let word = ending.verb().word();
    if args.has_filters() {
        return Err(Failure::Usage(format!(
            "--tree needs ids, not filters: outlast list -o ids … | outlast {word} - --tree"
        )));
    }
    if args.ids.is_empty() {
        return Err(Failure::Usage(format!(
            "no instances to {word} were given; give ids"
        )));
    }
    Ok(read_ids(client, &args.ids).await?.into_iter().collect())
}

fn print(
    ending: Ending,
    family: &FamilyCount,
    progress: CascadeProgress,
    output: &Output,
) -> Result<(), Failure> {
    let participle = ending.verb().participle();
    let mut roots = family.roots().iter();
    match output.format {
        Format::Json => output.json(&json!({
            "families": family.roots().len(),
            "live": json::count(family.live()),
            "complete": progress == CascadeProgress::Complete,
            "not_found": family.missing().len(),
        })),
        Format::Ids => roots.try_for_each(|id| output.line(id.to_string())),
        Format::Table => output.line(format!("{participle}: {}", family.sentence())),
    }
}
