//! A fresh store, and access to it.

use crate::eye::Eye;
use crate::site::{checkpoint, connect};
use anyhow::Result;
use outlast::engine::EngineBuilder;
use outlast::store::Store;
use outlast::{Client, Engine, Postgres, Sqlite};
use std::path::PathBuf;
use std::sync::Arc;
use tokio_postgres::Config;

/// A fresh store.
pub(crate) enum Bed {
    Postgres {
        store: Postgres,
        config: Box<Config>,
    },
    Sqlite {
        store: Sqlite,
        path: PathBuf,
    },
}

impl Bed {
    /// Returns a builder whose engine serves only the queues that a workload names: every queue
    /// has a picker, which is part of what is measured.
    pub(crate) fn builder(&self) -> EngineBuilder {
        let builder = match self {
            Bed::Postgres { store, .. } => Engine::builder(store.clone()),
            Bed::Sqlite { store, .. } => Engine::builder(store.clone()),
        };
        builder.only_named_queues()
    }

    pub(crate) fn client(&self) -> Client {
        match self {
            Bed::Postgres { store, .. } => Client::new(store.clone()),
            Bed::Sqlite { store, .. } => Client::new(store.clone()),
        }
    }

    /// Returns the store.
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match self {
            Bed::Postgres { store, .. } => Arc::new(store.clone()),
            Bed::Sqlite { store, .. } => Arc::new(store.clone()),
        }
    }

    /// Returns direct access to the tables.
    pub(crate) async fn eye(&self) -> Result<Eye> {
        match self {
            Bed::Postgres { config, .. } => Eye::on_postgres(config).await,
            Bed::Sqlite { path, .. } => Eye::on_sqlite(path),
        }
    }

    /// Brings the statistics up to date and flushes all pending writes, as in a database that has
    /// run for a while.
    pub(crate) async fn settle(&self) -> Result<()> {
        match self {
            Bed::Postgres { config, .. } => {
                let client = connect(config).await?;
                client.batch_execute("analyze").await?;
                checkpoint(&client).await
            }
            Bed::Sqlite { .. } => Ok(()),
        }
    }

    /// Like [`settle`](Bed::settle), after many rows were inserted past the store: the server has
    /// no background work left for them.
    pub(crate) async fn rest(&self) -> Result<()> {
        match self {
            Bed::Postgres { config, .. } => {
                let client = connect(config).await?;
                client.batch_execute("vacuum analyze").await?;
                checkpoint(&client).await
            }
            Bed::Sqlite { path, .. } => {
                let connection = rusqlite::Connection::open(path)?;
                connection.execute_batch("pragma wal_checkpoint(truncate)")?;
                Ok(())
            }
        }
    }
}
