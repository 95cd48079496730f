//! The command line.

use crate::site::StoreKind;
use clap::{Parser, ValueEnum};
use serde::Serialize;

/// Kills, cuts, freezes and fills Outlast, and checks that nothing is lost.
///
/// Exits with 1 when an invariant was violated, and with 2 when the run itself failed.
#[derive(Clone, Debug, Parser)]
#[command(name = "outlast-torture")]
pub(crate) struct Args {
    /// The faults to inject.
    #[arg(value_enum)]
    pub(crate) scenario: Scenario,

    /// The seed of the random choices. Default: a random one.
    #[arg(long, default_value_t = fastrand::u64(..1_000_000))]
    pub(crate) seed: u64,

    /// How long faults are injected. The drain and the checks take additional time.
    #[arg(long, default_value_t = 1.0, value_parser = minutes)]
    pub(crate) minutes: f64,

    /// The store, where a scenario leaves the choice.
    #[arg(long, value_enum, default_value_t = StoreKind::Postgres)]
    pub(crate) store: StoreKind,

    /// Roots that the load starts per second; trees and lines add more instances.
    #[arg(long, default_value_t = 40.0, value_parser = rate)]
    pub(crate) rate: f64,

    /// Prints one JSON object instead of a table.
    #[arg(long)]
    pub(crate) json: bool,

    /// Keeps the folder with the ledger and the workers' logs, and prints its path. It is always
    /// kept after a violation.
    #[arg(long)]
    pub(crate) keep: bool,
}

/// The faults to inject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scenario {
    /// Three workers, each killed every 0.3 to 2 seconds and started again.
    Kill,
    /// The same with mostly families, which end in every way.
    Families,
    /// The same with mostly workflows, their children, activities, signals and timers.
    Flows,
    /// Three workers, stopped past their lease and resumed.
    Freeze,
    /// The server's backends and the whole server, killed repeatedly.
    Postgres,
    /// Connections cut around the response to COMMIT, stalled, reset, slowed down.
    Cut,
    /// The primary killed and its standby promoted, repeatedly.
    Failover,
    /// The same with an asynchronous standby: lost writes are counted.
    FailoverAsync,
    /// The same with Patroni and etcd, as in production.
    Patroni,
    /// Everything through PgBouncer in transaction mode, while workers are killed.
    Pooler,
    /// One process on an SQLite file killed, then one of two.
    Sqlite,
    /// A small file system that fills up.
    Disk,
    /// Workers an hour ahead of the database and an hour behind.
    Clock,
    /// Steps that abort, exhaust the memory, block, or return values that cannot be stored.
    Poison,
    /// A steady rate without faults, twice beside a snapshot that is held open for a minute.
    Soak,
}

fn minutes(text: &str) -> Result<f64, String> {
    let minutes: f64 = text
        .parse()
        .map_err(|_| "not a number of minutes".to_owned())?;
    match (0.01..=10_000.0).contains(&minutes) {
        true => Ok(minutes),
        false => Err("give between 0.01 and 10,000 minutes".into()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    match (0.1..=10_000.0).contains(&rate) {
        true => Ok(rate),
        false => Err("give between 0.1 and 10,000 a second".into()),
    }
}
