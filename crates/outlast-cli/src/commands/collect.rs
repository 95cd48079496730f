//! `outlast collect`: removing what ended long ago.

use super::bulk::agree;
use crate::bar::bar;
use crate::database::Database;
use crate::failure::Failure;
use crate::output::{Format, Output, note};
use crate::words;
use clap::Args;
use outlast_core::{CollectRequest, span};
use serde_json::json;
use std::time::Duration;

/// How many go in one transaction: others wait for its locks.
const BATCH: usize = 1_000;

/// Arguments of `collect`.
#[derive(Args, Debug)]
pub(crate) struct CollectArgs {
    /// Those that ended longer ago than this, such as 30d
    #[arg(long, value_name = "DURATION", value_parser = words::duration)]
    older_than: Duration,
    /// Remove at most so many
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
    /// Do it without asking
    #[arg(short, long)]
    yes: bool,
}

pub(crate) async fn run(
    args: &CollectArgs,
    database: &Database,
    output: &Output,
) -> Result<(), Failure> {
    let age = span(args.older_than);
    agree(
        &format!("remove every instance that ended more than {age} ago?"),
        args.yes,
    )?;
    let bar = bar("removing", None);
    let mut left = args.limit.unwrap_or(usize::MAX);
    let mut removed = 0;
    while left > 0 {
        let request = CollectRequest {
            retention: args.older_than,
            max: BATCH.min(left),
        };
        let collected = database.store.collect(request).await?;
        let ids = &collected.removed;
        if output.format == Format::Ids {
            ids.iter().try_for_each(|id| output.line(id.to_string()))?;
        }
        removed += ids.len();
        left = left.saturating_sub(ids.len());
        bar.inc(ids.len() as u64);
        if !collected.more {
            break;
        }
    }
    bar.finish_and_clear();
    match output.format {
        Format::Json => output.json(&json!({"removed": removed})),
        Format::Table => output.line(format!("{removed} removed")),
        Format::Ids => {
            note(format!("{removed} removed"));
            Ok(())
        }
    }
}
