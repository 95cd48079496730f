//! The server that `scripts/test.sh` starts for all tests. Each test has its own schema there.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio_postgres::{Client, NoTls};

/// Returns the address of the server.
pub fn url() -> String {
    std::env::var("OUTLAST_TEST_POSTGRES_URL").expect(
        "OUTLAST_TEST_POSTGRES_URL is not set: run ./scripts/test.sh, which starts a private PostgreSQL, or name a server",
    )
}

/// Returns a name that no other test, thread or process uses.
pub fn unique_schema() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let micros = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("the clock is past 1970")
        .as_micros();
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("t{}_{micros}_{next}", std::process::id())
}

/// Returns a schema for one test: an empty one that another test has [returned](return_schema), or
/// a new name.
///
/// To migrate and drop a schema costs the server more than a short test.
pub fn take_schema() -> String {
    let names = returned_schemas().and_then(|folder| fs::read_dir(folder).ok());
    let files = names.into_iter().flatten().flatten();
    // Of several processes, one can remove the file.
    let taken = files
        .into_iter()
        .find(|file| fs::remove_file(file.path()).is_ok());
    taken.map_or_else(unique_schema, |file| {
        file.file_name().to_string_lossy().into_owned()
    })
}

/// Empties a schema and keeps it for another test, or drops it.
///
/// A test that has changed tables or added objects must [drop](drop_schema) its schema first.
pub async fn return_schema(schema: &str) {
    let Some(folder) = returned_schemas() else {
        return drop_schema(schema).await;
    };
    let emptied = connect(&url()).await.batch_execute(&emptying(schema)).await;
    match emptied {
        Ok(()) => fs::write(folder.join(schema), "").expect("the folder of schemas is writable"),
        // The test has dropped it, or another session still uses it.
        Err(_) => drop_schema(schema).await,
    }
}

/// The folder with one empty file for each returned schema.
///
/// Only nextest runs each test in its own process. In one process, a client could still have cached
/// rows of the last test, whose ids are used again.
fn returned_schemas() -> Option<PathBuf> {
    std::env::var_os("NEXTEST")?;
    std::env::var_os("OUTLAST_TEST_SCHEMAS").map(PathBuf::from)
}

/// Deletes all rows and restarts all ids, but keeps the version of the schema.
fn emptying(schema: &str) -> String {
    format!(
        "set lock_timeout = '2s';
         do $$ begin
            execute (select 'truncate ' || string_agg(format('%I.%I', schemaname, tablename), ', ')
                         || ' restart identity'
                       from pg_tables where schemaname = '{schema}' and tablename <> 'meta');
         end $$"
    )
}

/// Opens a plain connection, for what stores cannot do.
pub async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls)
        .await
        .expect("the test server answers");
    tokio::spawn(connection);
    client
}

/// Drops a schema with everything in it, if it exists.
pub async fn drop_schema(schema: &str) {
    let sql =
        format!("set client_min_messages = warning; drop schema if exists \"{schema}\" cascade");
    connect(&url())
        .await
        .batch_execute(&sql)
        .await
        .expect("the schema is dropped");
}
