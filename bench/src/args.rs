//! The command line.

use clap::{Parser, ValueEnum};
use std::fmt;

/// Measures Outlast. Every figure is the median of several runs, its sides run in turn.
#[derive(Debug, Parser)]
#[command(name = "outlast-bench")]
pub(crate) struct Args {
    /// What to measure.
    pub(crate) workload: Workload,
    /// Which store; both, in turn, with `postgres,sqlite`.
    #[arg(long, value_delimiter = ',', default_value = "postgres")]
    pub(crate) store: Vec<Kind>,
    /// A PostgreSQL server whose role may create databases; a private one is started unless given.
    #[arg(long)]
    pub(crate) url: Option<String>,
    /// How many instances; each workload has its own usual number.
    #[arg(short)]
    pub(crate) n: Option<usize>,
    /// How often each side is run.
    #[arg(long, default_value_t = 3)]
    pub(crate) runs: usize,
    /// Peers to run beside it, by their folder's name in bench/peers.
    #[arg(long, value_delimiter = ',')]
    pub(crate) peers: Vec<String>,
    /// One JSON object per figure instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// One-step instances inserted beforehand, until all are done.
    Drain,
    /// Instances of ten steps, with run-ahead and without.
    Chain,
    /// Rows in: one by one, by the thousand, and from 32 callers at once.
    Insert,
    /// Only the limit: what bare, batched SQL does for drain, chain and insert.
    Floor,
}

/// Where it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Kind {
    Postgres,
    Sqlite,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Postgres => "postgres",
            Kind::Sqlite => "sqlite",
        })
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.to_possible_value();
        f.write_str(name.as_ref().map_or("?", |name| name.get_name()))
    }
}
