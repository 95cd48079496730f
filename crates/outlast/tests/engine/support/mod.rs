//! Runs a test on both stores: SQLite in memory, and a schema of its own on PostgreSQL.
//! `scripts/test.sh` starts the PostgreSQL server.

#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "each test binary uses its part"
)]
#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

pub(crate) mod family;
pub(crate) mod raw;
pub(crate) mod through;

use futures_util::FutureExt;
use outlast::store::{Delivery, Inspect, Store, Target};
use outlast::{Client, Durable, Engine, Handle, Machine, New, Signal};
use outlast_postgres::Postgres;
use outlast_sqlite::Sqlite;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

pub(crate) use outlast_testbed::shared::{
    drop_schema, return_schema, take_schema, unique_schema, url,
};

/// The limit of every wait. Nothing that works takes this long.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Makes a test for each store from every function named. Each function takes the store:
/// `async fn a_sentence<S: Store + Inspect + Clone>(store: S)`.
macro_rules! on_both_stores {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    crate::support::on_sqlite(super::$name).await;
                }
            )+
        }

        mod postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    crate::support::on_postgres(super::$name).await;
                }
            )+
        }
    };
}
pub(crate) use on_both_stores;

/// Runs a test on SQLite in memory.
pub(crate) async fn on_sqlite<T: Future<Output = ()>>(test: impl FnOnce(Sqlite) -> T) {
    let store = Sqlite::in_memory().expect("a store in memory can be opened");
    test(store.clone()).await;
    store.close().await;
}

/// Runs a test in a schema of its own. The schema is dropped after the test, also after a panic.
pub(crate) async fn on_postgres<T: Future<Output = ()>>(test: impl FnOnce(Postgres) -> T) {
    let schema = take_schema();
    let store = postgres(&schema).await;
    let tested = AssertUnwindSafe(test(store.clone())).catch_unwind().await;
    store.close().await;
    return_schema(&schema).await;
    if let Err(panic) = tested {
        std::panic::resume_unwind(panic);
    }
}

/// Opens a store in this schema. A test may open several.
pub(crate) async fn postgres(schema: &str) -> Postgres {
    Postgres::options(&url())
        .expect("the URL can be read")
        .schema(schema)
        .connect()
        .await
        .expect("the test server can be used")
}

/// Starts an engine with this machine and ten slots.
pub(crate) async fn running<M: Machine>(store: impl Store + Inspect, machine: M) -> Engine {
    Engine::builder(store)
        .register(machine)
        .queue("default", 10)
        .start()
        .await
        .unwrap()
}

/// Starts an instance whose key must be free.
pub(crate) async fn insert<D: Durable>(client: &Client, new: New<D>) -> Handle<D> {
    let started = client.start(new).await.unwrap();
    assert!(started.is_new(), "its key is occupied");
    started
}

/// Sends a signal, and returns the answer of the store.
///
/// It says what [`Client::signal`] leaves out: whether the signal woke the instance.
pub(crate) async fn deliver<S: Signal>(
    client: &Client,
    target: impl Into<Target>,
    signal: S,
) -> Delivery {
    let signal = signal.to(target).unwrap();
    let answers = client.admin().signal_rows(vec![signal]).await.unwrap();
    let [answer] = answers.try_into().unwrap();
    answer
}

/// Polls a condition until it holds. For conditions without a notification.
pub(crate) async fn eventually(what: &str, mut ask: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !ask().await {
        assert!(begun.elapsed() < LONG, "never: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
