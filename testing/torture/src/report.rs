//! The report of a run, for people and as JSON.

use crate::args::{Args, Scenario};
use crate::audit::{self, Subject};
use crate::check::{Figures, Violation};
use crate::ledger::Entry;
use crate::scenario::Sample;
use crate::site::{Site, StoreKind};
use anyhow::Result;
use comfy_table::{Table, presets};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The number of violations that are printed.
const PRINTED_MAX: usize = 20;

/// The faults, the counts and the violations of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) scenario: Scenario,
    pub(crate) store: StoreKind,
    pub(crate) seed: u64,
    pub(crate) minutes: f64,
    pub(crate) seconds: f64,
    /// Faults of servers and connections, by kind.
    pub(crate) faults: BTreeMap<String, u64>,
    /// Calls of the load that returned an error.
    pub(crate) load_errors: u64,
    pub(crate) figures: Figures,
    /// Measurements of this scenario only.
    pub(crate) extra: Vec<(String, String)>,
    pub(crate) violations: Vec<Violation>,
    pub(crate) stories: Vec<Story>,
    /// The folder of the ledger and the logs, if it was kept.
    pub(crate) folder: Option<PathBuf>,
}

impl Report {
    /// Adds a measurement of this scenario.
    pub(crate) fn with(mut self, name: &str, value: impl ToString) -> Report {
        self.extra.push((name.to_owned(), value.to_string()));
        self
    }

    pub(crate) fn print(&self, json: bool) -> Result<()> {
        if json {
            println!("{}", serde_json::to_string(self)?);
            return Ok(());
        }
        println!("{}", self.table());
        for violation in self.violations.iter().take(PRINTED_MAX) {
            let who = violation.instance.map(|id| format!(" instance {id}"));
            let who = who.unwrap_or_default();
            println!("{}{who}: {}", violation.rule, violation.what);
        }
        let more = self.violations.len().saturating_sub(PRINTED_MAX);
        if more > 0 {
            println!("and {more} more");
        }
        for story in &self.stories {
            println!("\nthe story of instance {}", story.instance);
            for (_, line) in &story.lines {
                println!("  {line}");
            }
        }
        if let Some(folder) = &self.folder {
            println!("\nthe ledger and the logs are in {}", folder.display());
        }
        Ok(())
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let scenario = format!("{:?}", self.scenario).to_lowercase();
        let store = format!("{:?}", self.store).to_lowercase();
        let mut row = |name: &str, value: String| {
            table.add_row([name.to_owned(), value]);
        };
        row(
            "scenario",
            format!("{scenario} on {store}, seed {}", self.seed),
        );
        row(
            "took",
            format!("{:.0} s, faults for {} min", self.seconds, self.minutes),
        );
        for (kind, count) in &self.faults {
            row(kind, count.to_string());
        }
        let figures = &self.figures;
        let counts = [
            ("instances", figures.instances),
            ("changes", figures.changes),
            ("steps run", figures.effects),
            ("outcomes written", figures.outcomes),
            ("duplicate executions", figures.duplicate_executions),
            ("started after their successor", figures.late_starts),
            ("signals", figures.signals),
            ("joins", figures.joins),
            ("joins decided early", figures.early_joins),
            ("joins by deadline", figures.join_deadlines),
            ("windows", figures.windows),
            ("asked to end", figures.cancels),
            ("ended before their place", figures.never_started),
            ("timeouts", figures.timeouts),
            ("latest timeout, ms", figures.latest_timeout_ms),
            ("instances that took too long", figures.timed_out),
            ("latest of these, ms", figures.latest_timed_out_ms),
            ("workflows", figures.workflows),
            ("runs begun anew", figures.continued_as_new),
            ("steps of workflows run", figures.flow_effects),
            ("of these recorded", figures.flow_results),
            ("activities recorded", figures.activities),
            ("groups resolved", figures.groups),
            ("selections resolved", figures.selections),
            ("children told", figures.told),
            ("changes marked", figures.versions),
            ("timers of workflows", figures.flow_timers),
            ("signals of workflows", figures.flow_signals),
            ("failures handled", figures.handled),
            ("updates", figures.updates),
            ("updates sent again", figures.updates_sent_again),
            ("updates replied", figures.updates_replied),
            ("updates rejected", figures.updates_rejected),
            ("updates ended", figures.updates_ended),
            ("updates handled", figures.updates_handled),
            ("workflows cancelled", figures.flows_cancelled),
            ("worker kills", figures.kills),
            ("worker deaths", figures.deaths),
            ("worker freezes", figures.freezes),
            ("zombies", figures.zombies),
            ("outcomes of lost claims", figures.lost_outcomes),
            ("recoveries", figures.recoveries),
            ("slowest recovery, ms", figures.slowest_recovery_ms),
            ("operators' retries", figures.operators_retries),
            ("collected", figures.collected),
            ("acknowledged inserts that are gone", figures.lost_inserts),
            ("acknowledged signals that are gone", figures.lost_signals),
            ("steps run after a commit that is gone", figures.lost_visits),
            ("load's errors", self.load_errors),
        ];
        for (name, count) in counts {
            row(name, count.to_string());
        }
        for (name, value) in &self.extra {
            row(name, value.clone());
        }
        row("violations", self.violations.len().to_string());
        table
    }
}

/// All records of one instance, in order.
#[derive(Debug, Serialize)]
pub(crate) struct Story {
    instance: i64,
    lines: Vec<(i64, String)>,
}

impl Story {
    pub(crate) async fn of(site: &Site, entries: &[Entry], id: i64) -> Result<Story> {
        let mut lines = Vec::new();
        audit::read(site, Some(id), |change| {
            let (seq, at) = (change.seq, change.at);
            let what = match &change.subject {
                Subject::Instance(row) => format!("{row:?}"),
                Subject::Event(row) => format!("{row:?}"),
                Subject::Signal(row) => format!("{row:?}"),
                Subject::Worker(row) => format!("{row:?}"),
            };
            lines.push((at, format!("{at} change {seq}: {what}")));
        })
        .await?;
        for entry in entries {
            if let Some(at) = about(entry, id) {
                lines.push((at, format!("{at} ledger: {entry:?}")));
            }
        }
        lines.sort();
        Ok(Story {
            instance: id,
            lines,
        })
    }
}

/// Returns when the entry happened, if it is about the instance.
fn about(entry: &Entry, id: i64) -> Option<i64> {
    let (instance, at) = match entry {
        Entry::Ran(ran) => (ran.id, ran.at),
        Entry::Did(did) => (did.id, did.at),
        Entry::Inserted(inserted) => (inserted.id, inserted.at),
        Entry::Delivered { instance, at, .. }
        | Entry::Sent { instance, at, .. }
        | Entry::Operated { instance, at, .. } => (*instance, *at),
        Entry::Told(told) => (told.instance, told.at),
        Entry::Asked { .. }
        | Entry::Duplicate { .. }
        | Entry::Worker { .. }
        | Entry::LostOutcomes { .. }
        | Entry::Mended { .. }
        | Entry::Fault { .. } => return None,
    };
    (instance == id).then_some(at)
}

/// The measurements of a soak.
#[derive(Debug, Serialize)]
pub(crate) struct SoakReport {
    store: StoreKind,
    seed: u64,
    minutes: f64,
    rate: f64,
    load_errors: u64,
    samples: Vec<Sample>,
}

impl SoakReport {
    pub(crate) fn new(args: &Args, samples: Vec<Sample>, load_errors: u64) -> SoakReport {
        SoakReport {
            store: args.store,
            seed: args.seed,
            minutes: args.minutes,
            rate: args.rate,
            load_errors,
            samples,
        }
    }

    pub(crate) fn print(&self, json: bool) -> Result<()> {
        if json {
            println!("{}", serde_json::to_string(self)?);
            return Ok(());
        }
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header([
            "minute",
            "instances",
            "table KiB",
            "indexes KiB",
            "signals KiB",
            "claims",
            "claimed",
            "buffers/claimed",
            "worker KiB",
            "snapshot",
        ]);
        for sample in &self.samples {
            table.add_row([
                format!("{:.1}", sample.minute),
                sample.instances.to_string(),
                sample.table_kib.to_string(),
                sample.indexes_kib.to_string(),
                sample.signals_kib.to_string(),
                sample.claims.to_string(),
                sample.claimed.to_string(),
                format!("{:.1}", sample.buffers_per_claimed),
                sample.worker_kib.to_string(),
                if sample.snapshot { "open" } else { "" }.to_owned(),
            ]);
        }
        let store = format!("{:?}", self.store).to_lowercase();
        let (minutes, rate, seed) = (self.minutes, self.rate, self.seed);
        println!("soak on {store}, {minutes} min at {rate} roots/s, seed {seed}");
        println!("{table}");
        println!("load's errors: {}", self.load_errors);
        Ok(())
    }
}
