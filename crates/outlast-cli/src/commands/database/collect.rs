//! `outlast collect`: deletes instances that finished long ago.

use crate::commands::operations::bulk::{confirm, print_count};
use crate::database::Database;
use crate::failure::Failure;
use crate::format;
use crate::output::{Format, Output, note};
use crate::progress::bar;
use clap::Args;
use indicatif::ProgressBar;
use outlast::store::{Count, Filter, Timestamp};
use outlast_core::{CollectRequest, span};
use serde_json::json;
use std::num::NonZeroUsize;
use std::time::Duration;

/// Instances per transaction, because other transactions wait for its locks.
const BATCH: usize = 1_000;

/// Arguments of `collect`.
#[derive(Args, Debug)]
pub(crate) struct CollectArgs {
    /// Instances that finished longer ago than this, such as 30d
    #[arg(long, value_name = "DURATION", value_parser = format::duration)]
    older_than: Duration,
    /// Delete at most this many
    #[arg(short = 'n', long, value_name = "N", value_parser = format::limit)]
    limit: Option<NonZeroUsize>,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// Only print how many instances it would delete
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(
    args: &CollectArgs,
    database: &Database,
    output: &Output,
) -> Result<(), Failure> {
    let all = CollectRequest {
        retention: args.older_than,
        max: BATCH,
    };
    all.check().map_err(|invalid| invalid.during("collect"))?;
    let now = database.client.admin().now().await?;
    let ended = database.client.count(ended(args.older_than, now)).await?;
    let limit = args.limit.map(NonZeroUsize::get);
    let wanted = at_most(ended, limit);
    if args.dry_run {
        return print_count(wanted, output);
    }
    if wanted == Count::Exactly(0) {
        note("no instances match");
        // Old log entries of operators belong to no instance. They are deleted after the
        // confirmation.
        if !args.yes {
            return print_deleted(0, output);
        }
    } else {
        confirm(&question(ended, wanted, args.older_than), args.yes)?;
    }
    let bar = bar("removing", Some(wanted));
    let most = limit.unwrap_or(usize::MAX);
    let removed = remove(all, most, &bar, database, output).await;
    bar.finish_and_clear();
    let removed = removed?;
    print_deleted(removed, output)
}

/// The filter of `collect`. A retention includes its last moment, while a filter excludes its own.
fn ended(retention: Duration, now: Timestamp) -> Filter {
    Filter {
        ended_until: Some(now - retention + Duration::from_micros(1)),
        ..Filter::default()
    }
}

fn at_most(ended: Count, limit: Option<usize>) -> Count {
    let limit = limit.map(|limit| limit as u64);
    match (ended, limit) {
        (Count::Exactly(number), Some(limit)) => Count::Exactly(number.min(limit)),
        (Count::AtLeast(number), Some(limit)) if limit <= number => Count::Exactly(limit),
        (Count::AtLeast(_), Some(_)) | (_, None) => ended,
    }
}

/// The count includes children whose parent is live, so the question mentions that they stay.
fn question(ended: Count, wanted: Count, age: Duration) -> String {
    let which = match wanted == ended {
        true => format::instances(ended),
        false => format!("{} of {}", format::count(wanted), format::instances(ended)),
    };
    format!(
        "delete {which} that finished more than {} ago, except children of live parents?",
        span(age)
    )
}

/// Deletes in batches, until none is left or `most` are deleted.
async fn remove(
    all: CollectRequest,
    most: usize,
    bar: &ProgressBar,
    database: &Database,
    output: &Output,
) -> Result<usize, Failure> {
    let (mut left, mut removed) = (most, 0);
    while left > 0 {
        let request = CollectRequest {
            max: BATCH.min(left),
            ..all
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
    Ok(removed)
}

fn print_deleted(removed: usize, output: &Output) -> Result<(), Failure> {
    match output.format {
        Format::Json => output.json(&json!({"removed": removed})),
        Format::Table => output.line(format!("{removed} deleted")),
        Format::Ids => {
            note(format!("{removed} deleted"));
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_says_how_many_how_old_and_what_stays() {
        let month = Duration::from_secs(30 * 86_400);
        let two = Count::Exactly(2);
        assert_eq!(
            question(two, two, month),
            "delete 2 instances that finished more than 30 d ago, except children of live parents?"
        );
        let part = question(Count::AtLeast(100_000), two, month);
        assert!(part.starts_with("delete 2 of 100000+ instances that finished"));
    }

    #[test]
    fn the_expected_count_is_limited_to_the_requested_number() {
        let many = Count::AtLeast(100_000);
        assert_eq!(at_most(Count::Exactly(5), Some(2)), Count::Exactly(2));
        assert_eq!(at_most(Count::Exactly(5), Some(9)), Count::Exactly(5));
        assert_eq!(at_most(many, Some(9)), Count::Exactly(9));
        assert_eq!(at_most(many, Some(200_000)), many);
        assert_eq!(at_most(many, None), many);
    }
}
