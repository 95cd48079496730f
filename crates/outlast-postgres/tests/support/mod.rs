//! Each test has its own schema on the server that `scripts/test.sh` starts.

#![allow(dead_code, unused_imports, reason = "each test binary uses its part")]
#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

pub(crate) mod proxy;
pub(crate) mod work;

use outlast_conformance::Subject;
use outlast_core::ManualClock;
use outlast_postgres::{Options, Postgres};
use outlast_testbed::pooler::{Behind, Pooler};
use tokio_postgres::Config;
use tokio_postgres::config::Host;

pub(crate) use outlast_testbed::shared::{
    connect as raw_to, drop_schema, return_schema, take_schema, unique_schema, url,
};

/// Options for a store in this schema, with a clock that the test moves.
pub(crate) fn options(schema: &str, clock: &ManualClock) -> Options {
    Postgres::options(&url())
        .expect("the URL can be read")
        .schema(schema)
        .clock(clock.clone())
}

/// A plain connection, for statements that the store does not run.
pub(crate) async fn raw() -> tokio_postgres::Client {
    raw_to(&url()).await
}

/// A store for the conformance suite, in an empty schema.
pub(crate) async fn subject(
    connect: impl FnOnce(Options) -> Options,
    clock: ManualClock,
) -> Subject {
    let schema = take_schema();
    let store = connect(options(&schema, &clock))
        .connect()
        .await
        .expect("the test server can be used");
    Subject::new(store, clock).cleaned_by(async move {
        let returned = tokio::spawn(async move { return_schema(&schema).await });
        returned.await.expect("the schema is emptied or dropped");
    })
}

/// A separate database, for tests that concern a whole one. It remains after a failed test.
pub(crate) struct Database {
    pub(crate) name: String,
    pub(crate) url: String,
}

impl Database {
    pub(crate) async fn create() -> Database {
        Database::create_with("").await
    }

    /// With more options of `create database`.
    pub(crate) async fn create_with(options: &str) -> Database {
        let name = unique_schema();
        let sql = format!("create database {name} {options}");
        raw().await.batch_execute(&sql).await.unwrap();
        let url = url_of(|config| config.dbname(&name));
        Database { name, url }
    }

    pub(crate) async fn drop(self) {
        let sql = format!("drop database {} with (force)", self.name);
        raw().await.batch_execute(&sql).await.unwrap();
    }
}

/// The URL of the test server, with changes.
pub(crate) fn url_of(change: impl FnOnce(&mut Config) -> &mut Config) -> String {
    let mut config: Config = url().parse().expect("the URL can be read");
    change(&mut config);
    let Some(Host::Tcp(host)) = config.get_hosts().first() else {
        panic!("OUTLAST_TEST_POSTGRES_URL names no host");
    };
    let password = config.get_password().map_or_else(String::new, |password| {
        format!(":{}", String::from_utf8_lossy(password))
    });
    format!(
        "postgres://{}{password}@{host}:{}/{}",
        config.get_user().expect("the URL names a user"),
        config.get_ports().first().unwrap_or(&5432),
        config.get_dbname().expect("the URL names a database"),
    )
}

/// Starts a pooler in front of the test server. It hands out its server connections in turn.
pub(crate) fn start_pooler(server_connections: usize) -> Option<Pooler> {
    let config: Config = url().parse().expect("the URL can be read");
    let Some(Host::Tcp(host)) = config.get_hosts().first() else {
        panic!("OUTLAST_TEST_POSTGRES_URL names no host");
    };
    let password = config.get_password();
    let behind = Behind {
        host: host.clone(),
        port: *config.get_ports().first().unwrap_or(&5432),
        database: config
            .get_dbname()
            .expect("the URL names a database")
            .into(),
        user: config.get_user().expect("the URL names a user").into(),
        password: password.map(|password| String::from_utf8_lossy(password).into_owned()),
    };
    Pooler::start(&behind, server_connections)
}

/// The one value of a query.
pub(crate) async fn value_of<T>(client: &tokio_postgres::Client, query: &str) -> T
where
    T: for<'a> tokio_postgres::types::FromSql<'a>,
{
    client.query_one(query, &[]).await.unwrap().get(0)
}

/// Installs a clock in a schema that every session can set. Only the schema of a test may have it.
///
/// It is for tests that call the functions of the schema. A store with its own clock needs none.
pub(crate) async fn install_settable_clock(owner: &tokio_postgres::Client, schema: &str) {
    let now = outlast_postgres::testing::with_test_clock("select outlast.now()");
    let sql = format!(
        "create or replace function \"{schema}\".now() returns timestamptz
             language sql stable parallel safe as $$ {now} $$"
    );
    owner.batch_execute(&sql).await.unwrap();
}
