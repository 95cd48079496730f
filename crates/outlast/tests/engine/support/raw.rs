//! Direct access to the database of a store, to read and change what is stored.

use super::{postgres, return_schema, take_schema, url};
use futures_util::FutureExt;
use outlast::store::Store;
use outlast_postgres::Postgres;
use outlast_sqlite::Sqlite;
use std::fmt::Write;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::NoTls;

/// Makes a test for each store from every function named, with the store and its database:
/// `async fn a_sentence<S: Store + Inspect + Clone>(store: S, raw: Raw)`.
macro_rules! on_both_databases {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    crate::support::raw::on_sqlite_file(super::$name).await;
                }
            )+
        }

        mod postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    crate::support::raw::on_postgres_schema(super::$name).await;
                }
            )+
        }
    };
}
pub(crate) use on_both_databases;

/// The database of a store.
#[derive(Clone)]
pub(crate) enum Raw {
    /// A file.
    Sqlite(PathBuf),
    /// A schema of the test server.
    Postgres(Arc<tokio_postgres::Client>, String),
}

pub(crate) async fn on_sqlite_file<T: Future<Output = ()>>(test: impl FnOnce(Sqlite, Raw) -> T) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("outlast.db");
    let store = Sqlite::open(&path).expect("a file can be opened");
    test(store.clone(), Raw::Sqlite(path)).await;
    store.close().await;
}

pub(crate) async fn on_postgres_schema<T: Future<Output = ()>>(
    test: impl FnOnce(Postgres, Raw) -> T,
) {
    let schema = take_schema();
    let store = postgres(&schema).await;
    let (client, connection) = tokio_postgres::connect(&url(), NoTls)
        .await
        .expect("the test server answers");
    tokio::spawn(connection);
    let path = format!("set search_path to \"{schema}\"");
    client
        .batch_execute(&path)
        .await
        .expect("the schema is there");
    let raw = Raw::Postgres(Arc::new(client), schema.clone());
    let tested = AssertUnwindSafe(test(store.clone(), raw))
        .catch_unwind()
        .await;
    store.close().await;
    return_schema(&schema).await;
    if let Err(panic) = tested {
        std::panic::resume_unwind(panic);
    }
}

impl Raw {
    /// Executes SQL without a result.
    pub(crate) async fn execute(&self, sql: &str) {
        match self {
            Raw::Sqlite(_) => self.sqlite().execute_batch(sql).unwrap(),
            Raw::Postgres(client, _) => client.batch_execute(sql).await.unwrap(),
        }
    }

    /// Returns the single value of a query as text.
    pub(crate) async fn text(&self, sql: &str) -> String {
        match self {
            Raw::Sqlite(_) => self.sqlite().query_row(sql, [], |row| row.get(0)).unwrap(),
            Raw::Postgres(client, _) => {
                let sql = format!("select answer::text from ({sql}) as asked (answer)");
                client.query_one(&sql, &[]).await.unwrap().get(0)
            }
        }
    }

    /// Returns everything that is stored, as text. SQLite: every byte of the file and of its log.
    /// PostgreSQL: every column of every table.
    pub(crate) async fn everything(&self) -> String {
        match self {
            Raw::Sqlite(path) => {
                let log = path.with_extension("db-wal");
                let files = [path, &log].map(|file| std::fs::read(file).unwrap_or_default());
                String::from_utf8_lossy(&files.concat()).into_owned()
            }
            Raw::Postgres(client, schema) => {
                let tables = "select table_name::text from information_schema.tables \
                              where table_schema = $1 and table_type = 'BASE TABLE'";
                let mut everything = String::new();
                for table in client.query(tables, &[schema]).await.unwrap() {
                    let table: String = table.get(0);
                    let sql = format!("select t::text from \"{schema}\".\"{table}\" t");
                    for row in client.query(&sql, &[]).await.unwrap() {
                        let row: String = row.get(0);
                        writeln!(everything, "{table}: {row}").unwrap();
                    }
                }
                everything
            }
        }
    }

    /// Opens another connection to the file.
    pub(crate) fn sqlite(&self) -> rusqlite::Connection {
        let Raw::Sqlite(path) = self else {
            panic!("this database is not a file");
        };
        let connection = rusqlite::Connection::open(path).unwrap();
        connection.busy_timeout(Duration::from_secs(10)).unwrap();
        connection
    }
}
