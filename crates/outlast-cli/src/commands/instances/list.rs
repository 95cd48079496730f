//! `outlast list` and `outlast count`.

use crate::database::Database;
use crate::failure::Failure;
use crate::filters::{Filters, instance_id};
use crate::format;
use crate::json::{self, InstanceObject};
use crate::output::{Format, Output, note};
use crate::table::{self, Table};
use clap::Args;
use outlast::InstanceId;
use outlast::store::{Instance, ListRequest, Timestamp};
use std::num::NonZeroUsize;

/// Rows per query.
const PAGE: usize = 500;

/// Arguments of `list`.
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    filters: Filters,
    /// Maximum number of instances
    #[arg(short = 'n', long, value_name = "N", value_parser = format::limit, default_value = "50")]
    limit: NonZeroUsize,
    /// All instances
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Only instances with a lower id: where the previous list ended
    #[arg(long, value_name = "ID", value_parser = instance_id)]
    before: Option<InstanceId>,
    /// Include state and result, in JSON
    #[arg(long)]
    full: bool,
}

/// Arguments of `count`.
#[derive(Args, Debug)]
pub(crate) struct CountArgs {
    #[command(flatten)]
    filters: Filters,
}

pub(crate) async fn run(
    args: &ListArgs,
    database: &Database,
    output: &Output,
) -> Result<(), Failure> {
    let client = &database.client;
    let now = client.admin().now().await?;
    let filter = args.filters.at(now);
    let mut left = if args.all {
        usize::MAX
    } else {
        args.limit.get()
    };
    let (mut before, mut printed) = (args.before, 0_usize);
    while left > 0 {
        let request = ListRequest {
            filter: filter.clone(),
            before,
            limit: left.min(PAGE),
            values: args.full && output.format == Format::Json,
        };
        let page = client.admin().list(request).await?;
        print(args, &page.instances, now, printed == 0, output)?;
        printed += page.instances.len();
        left -= page.instances.len();
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    if let (Some(before), false) = (before, args.all) {
        note(format!("there may be more: --before {before}"));
    }
    if printed == 0 && output.format == Format::Table {
        note("no instances match");
    }
    Ok(())
}

fn print(
    args: &ListArgs,
    instances: &[Instance],
    now: Timestamp,
    is_first: bool,
    output: &Output,
) -> Result<(), Failure> {
    let mut instances = instances.iter();
    match output.format {
        Format::Json => instances.try_for_each(|it| {
            output.json(&match args.full {
                true => InstanceObject::full(it),
                false => InstanceObject::summary(it),
            })
        }),
        Format::Ids => instances.try_for_each(|it| output.line(it.id.to_string())),
        Format::Table if instances.len() == 0 => Ok(()),
        Format::Table => {
            let headings = if is_first { &table::INSTANCE[..] } else { &[] };
            let mut table = Table::new(output, headings);
            instances.for_each(|it| table.row(table::instance(it, now)));
            output.table(&table)
        }
    }
}

pub(crate) async fn count(
    args: &CountArgs,
    database: &Database,
    output: &Output,
) -> Result<(), Failure> {
    let now = database.client.admin().now().await?;
    let counted = database.client.count(args.filters.at(now)).await?;
    match output.format {
        Format::Json => output.json(&json::count(counted)),
        Format::Table | Format::Ids => output.line(format::count(counted)),
    }
}
