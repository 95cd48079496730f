//! The scenarios, one file each.

pub(crate) mod clock;
mod cut;
mod disk;
mod failover;
mod freeze;
mod kill;
mod poison;
mod pooler;
mod postgres;
mod soak;
mod sqlite;

pub(crate) use soak::Sample;

use crate::args::{Args, Scenario};
use crate::report::Report;
use crate::site::{Site, StoreKind};
use anyhow::{Context as _, Result, bail};
use outlast_testbed::cluster::Cluster;
use outlast_testbed::replicas::Mode;
use tempfile::TempDir;

/// Runs the scenario and prints its report. Returns whether no invariant was violated.
pub(crate) async fn run(args: &Args) -> Result<bool> {
    if args.scenario == Scenario::Soak {
        soak::run(args).await?.print(args.json)?;
        return Ok(true);
    }
    let report = torture(args).await?;
    report.print(args.json)?;
    Ok(report.violations.is_empty())
}

async fn torture(args: &Args) -> Result<Report> {
    match args.scenario {
        Scenario::Kill => kill::run(args).await,
        Scenario::Families => kill::run_families(args).await,
        Scenario::Flows => kill::run_flows(args).await,
        Scenario::Freeze => freeze::run(args).await,
        Scenario::Postgres => postgres::run(args).await,
        Scenario::Cut => cut::run(args).await,
        Scenario::Pooler => pooler::run(args).await,
        Scenario::Sqlite => sqlite::run(args).await,
        Scenario::Disk => disk::run(args).await,
        Scenario::Clock => clock::run(args).await,
        Scenario::Poison => poison::run(args).await,
        Scenario::Failover => failover::run(args, Mode::Synchronous).await,
        Scenario::FailoverAsync => failover::run(args, Mode::Asynchronous).await,
        Scenario::Patroni => failover::run_patroni(args).await,
        Scenario::Soak => bail!("a soak has a report of its own"),
    }
}

/// A private database, removed when the value is dropped.
pub(crate) enum Server {
    Postgres(Cluster),
    Sqlite(TempDir),
}

/// As in production: many sessions, and commits that wait for the disk.
const SETTINGS: &str = "max_connections = 200\nshared_buffers = 128MB\nmax_wal_size = 256MB\n\
                        log_min_messages = fatal";

impl Server {
    pub(crate) fn start(kind: StoreKind) -> Result<Server> {
        Ok(match kind {
            StoreKind::Postgres => Server::Postgres(postgres()?),
            StoreKind::Sqlite => Server::Sqlite(tempfile::tempdir()?),
        })
    }

    pub(crate) fn site(&self) -> Site {
        match self {
            Server::Postgres(cluster) => Site::postgres(cluster.url()),
            Server::Sqlite(folder) => Site::Sqlite {
                file: folder.path().join("torture.db"),
            },
        }
    }
}

/// Starts a private PostgreSQL.
pub(crate) fn postgres() -> Result<Cluster> {
    let mut cluster = Cluster::durable().context(
        "PostgreSQL's programs are needed: install them, or name their folder in OUTLAST_PG_BIN",
    )?;
    cluster.configure(SETTINGS);
    cluster.start();
    Ok(cluster)
}
