//! `outlast retry`, `cancel`, `terminate`, `delete` and `repair`: for ids, keys or filters.

use super::bulk_summary::BulkSummary;
use super::operator::Operator;
use super::verb::Verb;
use crate::commands::instances::target::{find, target};
use crate::database::Database;
use crate::failure::Failure;
use crate::filters::Filters;
use crate::output::{Format, Output, note};
use crate::progress::bar;
use crate::{format, json};
use clap::Args;
use outlast::store::{Count, Filter, ListRequest, Target};
use outlast::{Client, InstanceId};
use std::io::{BufRead, IsTerminal, Write};

/// Instances per transaction.
const BATCH: usize = 500;

/// Arguments of `retry`, `delete` and `repair`; `cancel` and `terminate` have more.
#[derive(Args, Debug)]
pub(crate) struct BulkArgs {
    /// The instances, by id or as MACHINE/KEY; `-` reads them from stdin. Or select them with
    /// filters
    #[arg(value_name = "ID|MACHINE/KEY")]
    pub(super) ids: Vec<String>,
    #[command(flatten)]
    filters: Filters,
    /// Every instance to which the command applies
    #[arg(long)]
    all: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(super) yes: bool,
    /// Only print how many instances it would affect
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) operator: Operator,
}

impl BulkArgs {
    /// Returns whether the instances are selected by filters instead of ids.
    pub(super) fn has_filters(&self) -> bool {
        self.all || !self.filters.is_empty()
    }
}

pub(crate) async fn run(
    verb: Verb,
    args: &BulkArgs,
    database: &Database,
    output: &Output,
) -> Result<(), Failure> {
    let client = &database.client;
    match (args.ids.is_empty(), args.has_filters()) {
        (false, false) => by_ids(verb, args, client, output).await,
        (true, true) => by_filter(verb, args, client, output).await,
        (true, false) => Err(Failure::Usage(format!(
            "no instances to {} were given; give ids, filters or --all",
            verb.word()
        ))),
        (false, true) => Err(Failure::Usage("give ids or filters, not both".to_owned())),
    }
}

async fn by_ids(
    verb: Verb,
    args: &BulkArgs,
    client: &Client,
    output: &Output,
) -> Result<(), Failure> {
    let ids = read_ids(client, &args.ids).await?;
    let matched = Count::Exactly(ids.len() as u64);
    if args.dry_run {
        return print_count(matched, output);
    }
    let mut summary = BulkSummary::default();
    if ids.is_empty() {
        note("no ids on stdin");
        return summary.print(verb, output);
    }
    // A single instance named on the command line needs no confirmation.
    if ids.len() > 1 || args.ids == ["-"] {
        confirm(&verb.question(matched), args.yes)?;
    }
    let bar = bar(verb.gerund(), Some(matched));
    for batch in ids.chunks(BATCH) {
        let results = verb.perform(client, batch, args.operator.note()).await?;
        summary.add(batch, &results, output)?;
        bar.inc(batch.len() as u64);
    }
    bar.finish_and_clear();
    summary.print(verb, output)?;
    summary.into_failure()
}

async fn by_filter(
    verb: Verb,
    args: &BulkArgs,
    client: &Client,
    output: &Output,
) -> Result<(), Failure> {
    let mut filter = args.filters.at(client.admin().now().await?);
    filter.statuses = verb.narrowed(&filter.statuses)?;
    let matched = client.count(filter.clone()).await?;
    if args.dry_run {
        return print_count(matched, output);
    }
    let mut summary = BulkSummary::default();
    if matched == Count::Exactly(0) {
        note("no instances match");
        return summary.print(verb, output);
    }
    confirm(&verb.question(matched), args.yes)?;
    let bar = bar(verb.gerund(), Some(matched));
    let mut before = None;
    // Instances inserted meanwhile have higher ids than the cursor, so the loop ends.
    loop {
        let (ids, next) = page(client, &filter, before).await?;
        let results = verb.perform(client, &ids, args.operator.note()).await?;
        summary.add(&ids, &results, output)?;
        bar.inc(ids.len() as u64);
        before = next;
        if before.is_none() {
            break;
        }
    }
    bar.finish_and_clear();
    // An instance that changed since it was listed is no failure: it no longer matches.
    summary.print(verb, output)
}

async fn page(
    client: &Client,
    filter: &Filter,
    before: Option<InstanceId>,
) -> Result<(Vec<InstanceId>, Option<InstanceId>), Failure> {
    let request = ListRequest {
        filter: filter.clone(),
        before,
        limit: BATCH,
        values: false,
    };
    let page = client.admin().list(request).await?;
    Ok((page.instances.iter().map(|it| it.id).collect(), page.next))
}

/// Asks for confirmation. Refuses if stdin is not a terminal.
pub(crate) fn confirm(question: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    let (input, mut error) = (std::io::stdin(), std::io::stderr());
    if !input.is_terminal() || !error.is_terminal() {
        return Err(Failure::Refused(format!(
            "{question} stdin is not a terminal; confirm with --yes"
        )));
    }
    write!(error, "{} [y/N] ", format::harmless(question))?;
    error.flush()?;
    let mut answer = String::new();
    input.lock().read_line(&mut answer)?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::Refused("aborted".to_owned())),
    }
}

/// Returns the instances from the command line or from stdin, separated by white space. A key is
/// looked up once: its holder, or else its latest holder.
pub(super) async fn read_ids(
    client: &Client,
    given: &[String],
) -> Result<Vec<InstanceId>, Failure> {
    let mut ids = Vec::new();
    for text in read_words(given)? {
        ids.push(match target(&text).map_err(Failure::Usage)? {
            Target::Id(id) => id,
            key @ Target::Key { .. } => find(client, &key).await?.id,
        });
    }
    Ok(ids)
}

fn read_words(given: &[String]) -> Result<Vec<String>, Failure> {
    if given != ["-"] {
        return Ok(given.to_vec());
    }
    let mut words = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| Failure::Usage(format!("cannot read stdin: {error}")))?;
        words.extend(line.split_whitespace().map(str::to_owned));
    }
    Ok(words)
}

/// Prints the count and changes nothing.
pub(crate) fn print_count(matched: Count, output: &Output) -> Result<(), Failure> {
    match output.format {
        Format::Json => output.json(&json::count(matched)),
        Format::Table | Format::Ids => output.line(format::count(matched)),
    }
}
