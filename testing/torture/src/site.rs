//! The database of the instances: a PostgreSQL, directly or through a proxy, or an SQLite file.

use anyhow::{Context as _, Result};
use outlast::engine::EngineBuilder;
use outlast::{Client, Engine, InstanceId, Postgres, Sqlite};
use outlast_core::{Inspect, RepairScope, Store};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use tokio_postgres::NoTls;

/// A database, as it is passed to a worker process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Site {
    Postgres {
        url: String,
        /// The URL for notifications, when `url` leads through a pooler.
        listen_url: Option<String>,
    },
    Sqlite {
        file: PathBuf,
    },
}

/// The stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StoreKind {
    Postgres,
    Sqlite,
}

impl Site {
    pub(crate) fn postgres(url: String) -> Site {
        Site::Postgres {
            url,
            listen_url: None,
        }
    }

    /// Returns a new client, and creates the schema if necessary.
    pub(crate) async fn client(&self) -> Result<Client> {
        Ok(match self {
            Site::Postgres { url, listen_url } => {
                Client::new(connect(url, listen_url.as_deref()).await?)
            }
            Site::Sqlite { file } => Client::new(Sqlite::open(file)?),
        })
    }

    /// Returns the builder of an engine.
    pub(crate) async fn engine(&self) -> Result<EngineBuilder> {
        Ok(match self {
            Site::Postgres { url, listen_url } => {
                Engine::builder(connect(url, listen_url.as_deref()).await?)
            }
            Site::Sqlite { file } => Engine::builder(Sqlite::open(file)?),
        })
    }

    /// Walks through all instances as a reconciler does, and returns those that need a repair.
    pub(crate) async fn mended(&self) -> Result<Vec<InstanceId>> {
        match self {
            Site::Postgres { url, listen_url } => {
                let store = connect(url, listen_url.as_deref()).await?;
                let mended = walk(&store).await;
                store.close().await;
                mended
            }
            Site::Sqlite { file } => {
                let store = Sqlite::open(file)?;
                let mended = walk(&store).await;
                store.close().await;
                mended
            }
        }
    }

    /// Returns the rows that are left when the system is idle.
    pub(crate) async fn remains(&self) -> Result<Remains> {
        match self {
            Site::Postgres { url, .. } => {
                let client = plain(url).await?;
                let count = async |sql: &str| -> Result<i64> {
                    Ok(client.query_one(sql, &[]).await?.get(0))
                };
                Ok(Remains {
                    executing: count("select count(*) from outlast.instances where status = 'executing'").await?,
                    workers: count("select count(*) from outlast.workers").await?,
                    orphans: count(
                        "select count(*) from outlast.signals s where s.consumed_at is null and not exists (\
                         select from outlast.instances i where i.id = s.target_id and i.finished_at is null)",
                    )
                    .await?,
                    cascades: count("select count(*) from outlast.cascades").await?,
                    connections: count(
                        "select count(*) from pg_stat_activity where backend_type = 'client backend' \
                         and datname = current_database() and pid <> pg_backend_pid() \
                         and application_name not like 'Patroni%'",
                    )
                    .await?,
                })
            }
            Site::Sqlite { file } => {
                let connection = open(file)?;
                let count = |sql: &str| -> Result<i64> {
                    Ok(connection.query_row(sql, [], |row| row.get(0))?)
                };
                Ok(Remains {
                    executing: count("select count(*) from instances where status = 'executing'")?,
                    workers: count("select count(*) from workers")?,
                    orphans: count(
                        "select count(*) from signals s where s.consumed_at is null and not exists (\
                         select 1 from instances i where i.id = s.target_id and i.finished_at is null)",
                    )?,
                    cascades: count("select count(*) from cascades")?,
                    connections: 0,
                })
            }
        }
    }

    /// Returns whether every instance has finished, no cascade is pending, and at most this many
    /// workers are registered.
    pub(crate) async fn rests(&self, workers: usize) -> Result<bool> {
        let workers = i64::try_from(workers)?;
        Ok(match self {
            Site::Postgres { url, .. } => {
                let sql = "select not exists (select from outlast.instances where finished_at is null) \
                           and not exists (select from outlast.cascades) \
                           and (select count(*) from outlast.workers) <= $1";
                let row = plain(url).await?.query_one(sql, &[&workers]).await?;
                row.get(0)
            }
            Site::Sqlite { file } => {
                let sql = "select not exists (select 1 from instances where finished_at is null) \
                           and not exists (select 1 from cascades) \
                           and (select count(*) from workers) <= ?1";
                open(file)?.query_row(sql, [workers], |row| row.get(0))?
            }
        })
    }

    /// Counts the live instances.
    pub(crate) async fn live(&self) -> Result<i64> {
        Ok(match self {
            Site::Postgres { url, .. } => {
                let sql = "select count(*) from outlast.instances where finished_at is null";
                plain(url).await?.query_one(sql, &[]).await?.get(0)
            }
            Site::Sqlite { file } => {
                let sql = "select count(*) from instances where finished_at is null";
                open(file)?.query_row(sql, [], |row| row.get(0))?
            }
        })
    }
}

/// The rows that are left in the database.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Remains {
    pub(crate) executing: i64,
    pub(crate) workers: i64,
    /// Unconsumed signals without a live target.
    pub(crate) orphans: i64,
    /// Parents whose cascade is pending.
    pub(crate) cascades: i64,
    /// Other sessions on the database.
    pub(crate) connections: i64,
}

async fn connect(url: &str, listen_url: Option<&str>) -> Result<Postgres> {
    // Short timeouts, so that a fault costs the run seconds and not half a minute.
    let mut options = Postgres::options(url)?.connection_wait(Duration::from_secs(5));
    if let Some(url) = listen_url {
        options = options.listen_url(url)?;
    }
    Ok(options.connect().await?)
}

/// Opens a plain session, without the store.
pub(crate) async fn plain(url: &str) -> Result<tokio_postgres::Client> {
    let connecting = tokio_postgres::connect(url, NoTls);
    let connected = tokio::time::timeout(Duration::from_secs(10), connecting).await;
    let (client, connection) = connected.context("no answer")?.context("no connection")?;
    tokio::spawn(connection);
    Ok(client)
}

/// Opens a plain connection, without the store.
pub(crate) fn open(file: &std::path::Path) -> Result<rusqlite::Connection> {
    let connection = rusqlite::Connection::open(file)?;
    connection.busy_timeout(Duration::from_secs(30))?;
    Ok(connection)
}

async fn walk(store: &(impl Store + Inspect)) -> Result<Vec<InstanceId>> {
    let (mut needing, mut after) = (Vec::new(), None);
    loop {
        let page = RepairScope::Page { after, max: 1_000 };
        let found = store.needing_repair(page).await?;
        needing.extend(found.found.into_iter().map(|(id, _)| id));
        after = found.next;
        if after.is_none() {
            return Ok(needing);
        }
    }
}
