//! The command line.

use anyhow::{Result, ensure};
use clap::builder::PossibleValue;
use clap::{Parser, ValueEnum};
use std::fmt;

/// Measures Outlast. Every figure is the median of several runs, its sides run in turn.
#[derive(Debug, Parser)]
#[command(name = "outlast-bench")]
pub(crate) struct Args {
    /// What to measure.
    pub(crate) workload: Choice,
    /// Which store; both, in turn, with `postgres,sqlite`.
    #[arg(long, value_delimiter = ',', default_value = "postgres")]
    pub(crate) store: Vec<Kind>,
    /// A PostgreSQL server whose role may create databases; a private one is started unless given.
    #[arg(long)]
    pub(crate) url: Option<String>,
    /// How many instances; each workload has its own usual number.
    #[arg(short, value_parser = at_least_one)]
    pub(crate) n: Option<usize>,
    /// How often each side is run.
    #[arg(long, default_value = "3", value_parser = at_least_one)]
    pub(crate) runs: usize,
    /// For how many seconds an engine with nothing to do is watched.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = at_least_one)]
    pub(crate) idle: usize,
    /// Peers to run beside it, by their folder's name in bench/peers.
    #[arg(long, value_delimiter = ',')]
    pub(crate) peers: Vec<String>,
    /// One JSON object per figure instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Args {
    /// Whether they fit together.
    pub(crate) fn check(&self) -> Result<()> {
        let postgres = self.store.contains(&Kind::Postgres);
        ensure!(
            self.url.is_none() || postgres,
            "--url is the address of a PostgreSQL server; SQLite has none, add --store postgres"
        );
        ensure!(
            self.peers.is_empty() || postgres,
            "--peers run on PostgreSQL; add --store postgres"
        );
        Ok(())
    }

    /// The stores, each once.
    pub(crate) fn kinds(&self) -> Vec<Kind> {
        let mut kinds = self.store.clone();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("it must be 1 or more".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(format!("it is not a number: {error}")),
    }
}

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    One(Workload),
    Floor,
    All,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Workload {
    /// One-step instances inserted beforehand, until all are done.
    Drain,
    /// Instances of ten steps, with run-ahead and without.
    Chain,
    /// One parent and its children, until it has joined them.
    Fanout,
    /// The same with fifty children at a time, and without.
    Window,
    /// A tree of parked instances, from its cancel until all have ended.
    CancelTree,
    /// A parked instance from signal to done: one at a time, and many at once.
    Signal,
    /// From insert to done on an engine with nothing else to do, and from step to step.
    Latency,
    /// Rows in: one by one, by the thousand, and from 32 callers at once.
    Insert,
    /// Retries with random delays: how late they start.
    Timers,
    /// An engine with nothing to do: alone, and beside parked instances.
    Parked,
    /// What a claim costs with more and more to choose from.
    Backlog,
    /// Workflows of ten steps, and machines of as many.
    FlowSteps,
    /// A workflow that waits for all of its activities, and a machine with as many children.
    FlowFanout,
    /// Workflows that wait, from signal to done, with longer and longer histories.
    FlowReplay,
    /// Instances of ten steps, with nothing of their way recorded, their transitions, and their states.
    History,
}

impl Choice {
    /// What is measured for it, in this order.
    pub(crate) fn workloads(self) -> Vec<Workload> {
        let all = Workload::value_variants().iter().copied();
        match self {
            Choice::One(workload) => vec![workload],
            Choice::Floor => all.filter(|workload| workload.has_floor()).collect(),
            Choice::All => all.collect(),
        }
    }
}

impl Workload {
    /// Whether bare SQL can do the same.
    pub(crate) fn has_floor(self) -> bool {
        match self {
            Workload::Drain | Workload::Chain | Workload::Insert => true,
            Workload::Fanout
            | Workload::Window
            | Workload::CancelTree
            | Workload::Signal
            | Workload::Latency
            | Workload::Timers
            | Workload::Parked
            | Workload::Backlog
            | Workload::FlowSteps
            | Workload::FlowFanout
            | Workload::FlowReplay
            | Workload::History => false,
        }
    }

    /// How many instances, unless somebody says.
    pub(crate) fn usual_n(self) -> usize {
        match self {
            Workload::Drain | Workload::Insert => 100_000,
            Workload::Chain | Workload::FlowSteps | Workload::History => 20_000,
            Workload::Fanout | Workload::Window | Workload::CancelTree | Workload::Timers => 10_000,
            Workload::Signal | Workload::Latency | Workload::FlowFanout | Workload::FlowReplay => {
                1_000
            }
            Workload::Parked | Workload::Backlog => 1_000_000,
        }
    }

    /// With fewer it would not be what it is.
    pub(crate) fn least_n(self) -> usize {
        match self {
            // Its hundredth must hold a claim of a hundred.
            Workload::Backlog => 10_000,
            // Its quarter must be more than a run that has only begun and waits.
            Workload::FlowReplay => 20,
            Workload::Drain
            | Workload::Chain
            | Workload::Fanout
            | Workload::Window
            | Workload::CancelTree
            | Workload::Signal
            | Workload::Latency
            | Workload::Insert
            | Workload::Timers
            | Workload::Parked
            | Workload::FlowSteps
            | Workload::FlowFanout
            | Workload::History => 1,
        }
    }
}

impl ValueEnum for Choice {
    fn value_variants<'a>() -> &'a [Choice] {
        &[
            Choice::One(Workload::Drain),
            Choice::One(Workload::Chain),
            Choice::One(Workload::Fanout),
            Choice::One(Workload::Window),
            Choice::One(Workload::CancelTree),
            Choice::One(Workload::Signal),
            Choice::One(Workload::Latency),
            Choice::One(Workload::Insert),
            Choice::One(Workload::Timers),
            Choice::One(Workload::Parked),
            Choice::One(Workload::Backlog),
            Choice::One(Workload::FlowSteps),
            Choice::One(Workload::FlowFanout),
            Choice::One(Workload::FlowReplay),
            Choice::One(Workload::History),
            Choice::Floor,
            Choice::All,
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Choice::One(workload) => workload.to_possible_value(),
            Choice::Floor => {
                Some(PossibleValue::new("floor").help(
                    "Only the limit: what bare, batched SQL does for drain, chain and insert",
                ))
            }
            Choice::All => Some(PossibleValue::new("all").help("Everything, in turn")),
        }
    }
}

/// Where it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Kind {
    Postgres,
    Sqlite,
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Kind::Postgres => "postgres",
            Kind::Sqlite => "sqlite",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.to_possible_value();
        f.write_str(name.as_ref().map_or("?", |name| name.get_name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Args> {
        let args = Args::try_parse_from(line.split_whitespace())?;
        args.check()?;
        Ok(args)
    }

    #[test]
    fn everything_that_can_be_measured_can_be_asked_for() {
        for workload in Workload::value_variants() {
            let args = parsed(&format!("bench {workload}")).expect("it is known");
            assert_eq!(args.workload, Choice::One(*workload));
        }
        let all = parsed("bench all").expect("it is known").workload;
        assert_eq!(all.workloads(), Workload::value_variants());
        let floor = parsed("bench floor").expect("it is known").workload;
        assert_eq!(
            floor.workloads(),
            [Workload::Drain, Workload::Chain, Workload::Insert]
        );
    }

    #[test]
    fn what_measures_nothing_is_refused() {
        for line in [
            "bench drain -n 0",
            "bench drain -n -1",
            "bench drain -n many",
            "bench drain --runs 0",
            "bench parked --idle 0",
            "bench nothing",
            "bench drain --store sqlite --url postgres://localhost",
            "bench drain --store sqlite --peers dbos",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_store_named_twice_is_measured_once() {
        let args = parsed("bench drain --store sqlite,postgres,sqlite").expect("it is known");
        assert_eq!(args.kinds(), [Kind::Postgres, Kind::Sqlite]);
    }
}
