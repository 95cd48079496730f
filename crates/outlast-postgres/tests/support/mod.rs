//! A schema of its own for each test, on the server that `scripts/test.sh` starts.

#![allow(dead_code, reason = "each test binary uses its part")]

use outlast_conformance::Subject;
use outlast_core::ManualClock;
use outlast_postgres::{Options, Postgres};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio_postgres::NoTls;

/// Where the server is.
pub(crate) fn url() -> String {
    std::env::var("OUTLAST_TEST_POSTGRES_URL").expect(
        "OUTLAST_TEST_POSTGRES_URL is not set: run ./scripts/test.sh, which starts a private PostgreSQL, or name a server",
    )
}

/// A name that no other test, thread or process uses.
pub(crate) fn unique_schema() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let micros = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("the clock is past 1970")
        .as_micros();
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("t{}_{micros}_{next}", std::process::id())
}

/// Options for a store in this schema, with a clock that the test moves.
pub(crate) fn options(schema: &str, clock: &ManualClock) -> Options {
    Postgres::options(&url())
        .expect("the URL can be read")
        .schema(schema)
        .clock(clock.clone())
}

/// A bare connection, for what the store does not do.
pub(crate) async fn raw() -> tokio_postgres::Client {
    raw_to(&url()).await
}

/// A bare connection to another address.
pub(crate) async fn raw_to(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls)
        .await
        .expect("the test server answers");
    tokio::spawn(connection);
    client
}

pub(crate) async fn drop_schema(schema: &str) {
    let sql =
        format!("set client_min_messages = warning; drop schema if exists \"{schema}\" cascade");
    raw()
        .await
        .batch_execute(&sql)
        .await
        .expect("the schema is dropped");
}

/// A fresh store as the conformance suite takes it; its schema goes when the test is over.
pub(crate) async fn subject(connect: impl FnOnce(Options) -> Options, clock: ManualClock) -> Subject {
    let schema = unique_schema();
    let store = connect(options(&schema, &clock))
        .connect()
        .await
        .expect("the test server can be used");
    Subject::new(store, clock).cleaned_by(async move {
        let dropped = tokio::spawn(async move { drop_schema(&schema).await });
        dropped.await.expect("the schema is dropped");
    })
}
