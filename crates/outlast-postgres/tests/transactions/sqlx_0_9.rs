//! Insert and signal inside a transaction of sqlx 0.9.

use crate::rules::{Caller, transaction_rules};
use crate::support::work::task;
use crate::support::{drop_schema, unique_schema, url};
use outlast_core::{Delivery, Error, Inserted, Inspect, Invalid, NewInstance, NewSignal, Store};
use outlast_postgres::Postgres;
use outlast_postgres::transaction::{Schema, sqlx_0_9 as verbs};
use sqlx_core_0_9::connection::Connection;
use sqlx_core_0_9::raw_sql::raw_sql;
use sqlx_core_0_9::sql_str::AssertSqlSafe;
use sqlx_postgres_0_9::PgConnection;

struct Sqlx(PgConnection);

impl Caller for Sqlx {
    async fn begin(url: &str, begin: &str) -> Sqlx {
        let mut caller = Sqlx(PgConnection::connect(url).await.unwrap());
        caller.run(begin).await;
        caller
    }

    async fn run(&mut self, sql: &str) {
        raw_sql(AssertSqlSafe(sql))
            .execute(&mut self.0)
            .await
            .unwrap();
    }

    async fn insert<N>(&mut self, at: &impl AsRef<Schema>, new: N) -> Result<Inserted, Error>
    where
        N: TryInto<NewInstance>,
        N::Error: Into<Invalid>,
    {
        verbs::insert(&mut self.0, at, new).await
    }

    async fn signal<S>(&mut self, at: &impl AsRef<Schema>, signal: S) -> Result<Delivery, Error>
    where
        S: TryInto<NewSignal>,
        S::Error: Into<Invalid>,
    {
        verbs::signal(&mut self.0, at, signal).await
    }
}

transaction_rules!(Sqlx);

#[tokio::test]
async fn the_drivers_own_transaction_commits_or_rolls_back() {
    let schema = unique_schema();
    let options = Postgres::options(&url()).unwrap().schema(&schema);
    let store = options.connect().await.unwrap();
    let mut connection = PgConnection::connect(&url()).await.unwrap();

    let mut tx = connection.begin().await.unwrap();
    let dropped = verbs::insert(&mut tx, &store, task()).await.unwrap();
    drop(tx);
    let mut tx = connection.begin().await.unwrap();
    let kept = verbs::insert(&mut tx, &store, task()).await.unwrap();
    tx.commit().await.unwrap();
    let [dropped, kept] = [dropped, kept].map(|it| it.new_id().unwrap());
    assert_eq!(store.get(dropped).await.unwrap(), None);
    assert!(store.get(kept).await.unwrap().is_some());
    store.close().await;
    drop_schema(&schema).await;
}

#[tokio::test]
async fn a_lost_connection_gives_a_transient_error() {
    let schema = Schema::default();
    let mut connection = PgConnection::connect(&url()).await.unwrap();
    raw_sql("begin").execute(&mut connection).await.unwrap();
    let ended = raw_sql("select pg_terminate_backend(pg_backend_pid())");
    ended.execute(&mut connection).await.unwrap_err();
    let error = verbs::insert(&mut connection, &schema, task())
        .await
        .unwrap_err();
    assert_eq!(
        error.kind(),
        outlast_core::ErrorKind::Transient,
        "{error:?}"
    );
}
