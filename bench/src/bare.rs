//! One commit of one row on a separate connection: the cost of durability alone.

use crate::bed::Bed;
use crate::site::connect;
use anyhow::Result;
use std::time::Instant;
use tokio_postgres::Statement;

const TABLE: &str = "create table one_row (id integer primary key, number integer not null);
                     insert into one_row values (1, 0)";

const UPDATE: &str = "update one_row set number = number + 1 where id = 1";

/// A row to write repeatedly.
pub(crate) enum Bare {
    Postgres {
        client: tokio_postgres::Client,
        update: Statement,
    },
    Sqlite(rusqlite::Connection),
}

impl Bare {
    pub(crate) async fn new(bed: &Bed) -> Result<Bare> {
        Ok(match bed {
            Bed::Postgres { config, .. } => {
                let client = connect(config).await?;
                client.batch_execute(TABLE).await?;
                let update = client.prepare(UPDATE).await?;
                Bare::Postgres { client, update }
            }
            Bed::Sqlite { path, .. } => {
                let connection = rusqlite::Connection::open(path)?;
                connection.execute_batch("pragma synchronous = full")?;
                connection.execute_batch(TABLE)?;
                Bare::Sqlite(connection)
            }
        })
    }

    /// Writes the row, and returns the milliseconds until it was durable.
    pub(crate) async fn commit(&self) -> Result<f64> {
        let begun = Instant::now();
        match self {
            Bare::Postgres { client, update } => {
                client.execute(update, &[]).await?;
            }
            Bare::Sqlite(connection) => {
                connection.execute_batch("begin immediate")?;
                connection.prepare_cached(UPDATE)?.execute([])?;
                connection.execute_batch("commit")?;
            }
        }
        Ok(begun.elapsed().as_secs_f64() * 1_000.0)
    }
}
