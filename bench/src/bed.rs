//! A fresh store, and the ways to it.

use crate::eye::Eye;
use crate::site::{checkpoint, connect};
use anyhow::Result;
use outlast::{Client, Engine, EngineBuilder, Postgres, Sqlite, Store};
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
    pub(crate) fn builder(&self) -> EngineBuilder {
        match self {
            Bed::Postgres { store, .. } => Engine::builder(store.clone()),
            Bed::Sqlite { store, .. } => Engine::builder(store.clone()),
        }
    }

    pub(crate) fn client(&self) -> Client {
        match self {
            Bed::Postgres { store, .. } => Client::new(store.clone()),
            Bed::Sqlite { store, .. } => Client::new(store.clone()),
        }
    }

    /// The verbs themselves.
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match self {
            Bed::Postgres { store, .. } => Arc::new(store.clone()),
            Bed::Sqlite { store, .. } => Arc::new(store.clone()),
        }
    }

    /// A way to the tables past the store.
    pub(crate) async fn eye(&self) -> Result<Eye> {
        match self {
            Bed::Postgres { config, .. } => Eye::on_postgres(config).await,
            Bed::Sqlite { path, .. } => Eye::on_sqlite(path),
        }
    }

    /// Statistics as a database has them that has been up for a while, and nothing left to write.
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

    /// As [`settle`](Bed::settle), after many rows came in past the store: nothing of them is left for the
    /// server to do by itself later.
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
