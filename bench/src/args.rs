//! The command line.

use anyhow::{Result, ensure};
use clap::builder::PossibleValue;
use clap::{Parser, ValueEnum};
use std::fmt;

/// Measures Outlast. Every figure is the median of several runs; the sides of a comparison
/// alternate.
#[derive(Debug, Parser)]
#[command(name = "outlast-bench")]
pub(crate) struct Args {
    /// The workload.
    pub(crate) workload: Choice,
    /// The store; both, alternating, with `postgres,sqlite`.
    #[arg(long, value_delimiter = ',', default_value = "postgres")]
    pub(crate) store: Vec<Kind>,
    /// A PostgreSQL server whose role may create databases. Default: a private server.
    #[arg(long)]
    pub(crate) url: Option<String>,
    /// The number of instances. Default: depends on the workload.
    #[arg(short, value_parser = at_least_one)]
    pub(crate) n: Option<usize>,
    /// The number of runs of each side.
    #[arg(long, default_value = "3", value_parser = at_least_one)]
    pub(crate) runs: usize,
    /// How many seconds an idle engine is observed.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = at_least_one)]
    pub(crate) idle: usize,
    /// Peers to compare with, by their folder's name in bench/peers.
    #[arg(long, value_delimiter = ',')]
    pub(crate) peers: Vec<String>,
    /// Prints one JSON object per figure instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Args {
    /// Checks that the arguments fit together.
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

    /// Returns the stores without duplicates.
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

/// The workload argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    One(Workload),
    Floor,
    All,
}

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Workload {
    /// One-step instances inserted beforehand, until all are done.
    Drain,
    /// Instances of ten steps, with run-ahead and without.
    Chain,
    /// One parent and its children, until the join.
    Fanout,
    /// The same with a window of fifty, and without.
    Window,
    /// A tree of parked instances, from its cancel until all have finished.
    CancelTree,
    /// A parked instance from signal to done: one at a time, and many at once.
    Signal,
    /// From insert to done on an idle engine, and from step to step.
    Latency,
    /// Inserts: single rows, batches of a thousand, and 32 concurrent callers.
    Insert,
    /// Retries with random delays: how late they start.
    Timers,
    /// An idle engine: alone, and beside parked instances.
    Parked,
    /// The cost of a claim with a growing backlog.
    Backlog,
    /// Workflows of ten steps, and machines with as many.
    FlowSteps,
    /// A workflow that waits for all of its activities, and a machine with as many children.
    FlowFanout,
    /// Waiting workflows from signal to done, with growing histories.
    FlowReplay,
    /// Instances of ten steps that record nothing, their transitions, or their states.
    History,
}

impl Choice {
    /// Returns the workloads of a choice, in order.
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
    /// Returns whether bare SQL can do the same.
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

    /// Returns the default number of instances.
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

    /// Returns the smallest meaningful number of instances.
    pub(crate) fn least_n(self) -> usize {
        match self {
            // A hundredth of it must fill a claim of a hundred.
            Workload::Backlog => 10_000,
            // A quarter of it must exceed the events of a run that has just begun to wait.
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

/// A store.
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
    fn every_workload_can_be_named_on_the_command_line() {
        for workload in Workload::value_variants() {
            let args = parsed(&format!("bench {workload}")).expect("the command line is valid");
            assert_eq!(args.workload, Choice::One(*workload));
        }
        let all = parsed("bench all")
            .expect("the command line is valid")
            .workload;
        assert_eq!(all.workloads(), Workload::value_variants());
        let floor = parsed("bench floor")
            .expect("the command line is valid")
            .workload;
        assert_eq!(
            floor.workloads(),
            [Workload::Drain, Workload::Chain, Workload::Insert]
        );
    }

    #[test]
    fn invalid_arguments_are_refused() {
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
        let args = parsed("bench drain --store sqlite,postgres,sqlite")
            .expect("the command line is valid");
        assert_eq!(args.kinds(), [Kind::Postgres, Kind::Sqlite]);
    }
}
