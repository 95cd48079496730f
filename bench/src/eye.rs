//! Reads and fills the tables directly, past the store.

use crate::site::connect;
use anyhow::Result;
use indicatif::ProgressBar;
use outlast::InstanceId;
use std::path::Path;
use tokio_postgres::Config;

/// Rows per statement.
const CHUNK: usize = 100_000;

/// Direct access to the tables.
pub(crate) enum Eye {
    Postgres(tokio_postgres::Client),
    Sqlite(rusqlite::Connection),
}

impl Eye {
    pub(crate) async fn on_postgres(config: &Config) -> Result<Eye> {
        let client = connect(config).await?;
        // A read must stay cheap whatever the statistics are.
        client.batch_execute("set enable_seqscan = off").await?;
        Ok(Eye::Postgres(client))
    }

    pub(crate) fn on_sqlite(path: &Path) -> Result<Eye> {
        Ok(Eye::Sqlite(rusqlite::Connection::open(path)?))
    }

    /// Returns whether no instance is left to run. Workloads have no partition keys, so none is
    /// held behind one.
    pub(crate) async fn sees_nothing_to_run(&self) -> Result<bool> {
        let left: bool = match self {
            Eye::Postgres(client) => client
                .query_one(
                    "select exists (select from outlast.instances where status = 'runnable' and not blocked)
                         or exists (select from outlast.instances where locked_by is not null)",
                    &[],
                )
                .await?
                .get(0),
            Eye::Sqlite(connection) => connection.query_row(
                "select exists (select 1 from instances where status = 'runnable' and blocked = 0)
                     or exists (select 1 from instances where status = 'executing')",
                [],
                |row| row.get(0),
            )?,
        };
        Ok(!left)
    }

    /// For every instance of a machine whose result is a time in microseconds: returns how late
    /// that is after its due time, in milliseconds.
    pub(crate) async fn lateness(&self, machine: &str) -> Result<Vec<f64>> {
        let microseconds: Vec<i64> = match self {
            Eye::Postgres(client) => {
                let rows = client
                    .query(
                        "select result::text::bigint - (extract(epoch from eligible_at) * 1000000)::bigint
                           from outlast.instances
                          where machine = $1 and status = 'done'",
                        &[&machine],
                    )
                    .await?;
                rows.iter().map(|row| row.get(0)).collect()
            }
            Eye::Sqlite(connection) => {
                let mut statement = connection.prepare(
                    "select cast(result as integer) - eligible_at
                       from instances
                      where machine = ?1 and status = 'done'",
                )?;
                let rows = statement.query_map([machine], |row| row.get(0))?;
                rows.collect::<rusqlite::Result<_>>()?
            }
        };
        let milliseconds = microseconds.into_iter().map(|us| us as f64 / 1_000.0);
        Ok(milliseconds.collect())
    }

    /// Inserts this many copies of an instance, with all the columns that the store wrote.
    pub(crate) async fn copy(&self, id: InstanceId, times: usize, bar: &ProgressBar) -> Result<()> {
        let columns = self.columns().await?;
        for first in (0..times).step_by(CHUNK) {
            let rows = CHUNK.min(times - first);
            self.copy_chunk(&columns, id.0, rows as i64).await?;
            bar.inc(rows as u64);
        }
        Ok(())
    }

    async fn copy_chunk(&self, columns: &str, id: i64, rows: i64) -> Result<()> {
        match self {
            Eye::Postgres(client) => {
                let statement = format!(
                    "insert into outlast.instances ({columns})
                     select {columns} from outlast.instances, generate_series(1, $2::bigint) where id = $1"
                );
                client.execute(&statement, &[&id, &rows]).await?;
            }
            Eye::Sqlite(connection) => {
                let statement = format!(
                    "with recursive series (nth) as
                         (select 1 union all select nth + 1 from series where nth < ?2)
                     insert into instances ({columns})
                     select {columns} from instances, series where id = ?1"
                );
                connection.execute(&statement, [id, rows])?;
            }
        }
        Ok(())
    }

    /// Returns all columns except the id, which is unique.
    async fn columns(&self) -> Result<String> {
        Ok(match self {
            Eye::Postgres(client) => client
                .query_one(
                    "select string_agg(quote_ident(attname), ', ')
                       from pg_attribute
                      where attrelid = 'outlast.instances'::regclass
                        and attnum > 0 and not attisdropped and attname <> 'id'",
                    &[],
                )
                .await?
                .get(0),
            Eye::Sqlite(connection) => connection.query_row(
                "select group_concat(name, ', ') from pragma_table_info('instances') where name <> 'id'",
                [],
                |row| row.get(0),
            )?,
        })
    }
}
