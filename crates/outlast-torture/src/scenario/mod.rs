//! What is done to it, a file per scenario.

pub(crate) mod clock;
mod cut;
mod disk;
mod freeze;
mod kill;
mod pooler;
mod postgres;
mod sqlite;

use crate::args::{Args, Scenario};
use crate::report::Report;
use crate::site::{Site, StoreKind};
use anyhow::{Context as _, Result, bail};
use outlast_testbed::cluster::Cluster;
use tempfile::TempDir;

/// Runs the scenario.
pub(crate) async fn run(args: &Args) -> Result<Report> {
    match args.scenario {
        Scenario::Kill => kill::run(args).await,
        Scenario::Freeze => freeze::run(args).await,
        Scenario::Postgres => postgres::run(args).await,
        Scenario::Cut => cut::run(args).await,
        Scenario::Pooler => pooler::run(args).await,
        Scenario::Sqlite => sqlite::run(args).await,
        Scenario::Disk => disk::run(args).await,
        Scenario::Clock => clock::run(args).await,
        _ => bail!("not yet"),
    }
}

/// A database of our own, gone with the value.
pub(crate) enum Server {
    Postgres(Cluster),
    Sqlite(TempDir),
}

/// As a server that is used: many sessions, and commits that wait for the disk.
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

/// A PostgreSQL of our own, started.
pub(crate) fn postgres() -> Result<Cluster> {
    let mut cluster = Cluster::durable()
        .context("PostgreSQL's programs are needed: install them, or name their folder in OUTLAST_PG_BIN")?;
    cluster.configure(SETTINGS);
    cluster.start();
    Ok(cluster)
}
