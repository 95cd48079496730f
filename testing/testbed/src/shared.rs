//! The server that `scripts/test.sh` starts for all tests. Each test has its own schema there.

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
