//! Names: a schema name is plain or refused, and nodes send each other queue names unchanged.
//!
//! Other options of a URL do not change what statements mean.

use crate::support::work::{self, task};
use crate::support::{Database, drop_schema, raw, unique_schema, url, url_of, value_of};
use outlast_core::{ErrorKind, Hints, Inspect, Store};
use outlast_postgres::transaction::Schema;
use outlast_postgres::{Migrations, Postgres, Roles, migrations_sql};
use std::time::Duration;

const REFUSED: &[&str] = &[
    "",
    "a\"b",
    "a'b",
    "a.b",
    "a;drop schema public cascade",
    "a\0b",
    "a b",
    "a$b",
    "a-b",
    "A",
    "1a",
    "pg_temp",
    "pg_catalog",
    "ä",
    "ａ",
    "a\u{200b}",
    "a\n",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
];

#[tokio::test]
async fn every_entry_point_refuses_a_schema_name_that_is_not_plain() {
    let options = |name: &str| Postgres::options(&url()).unwrap().schema(name);
    let roles = Roles::new().worker("w");
    for name in REFUSED {
        let errors = [
            options(name).connect().await.unwrap_err(),
            options(name)
                .migrations(Migrations::Check)
                .connect()
                .await
                .unwrap_err(),
            options(name).schema_version().await.unwrap_err(),
            options(name).grant(&roles).await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
            assert!(error.to_string().contains("is not a plain name"), "{error}");
        }
        assert!(migrations_sql(name).is_err(), "{name}");
        assert!(roles.sql(name).is_err(), "{name}");
        assert!(Schema::new(name).is_err(), "{name}");
    }
}

#[tokio::test]
async fn a_schema_name_may_be_a_keyword_of_sql() {
    let database = Database::create().await;
    let long = "x".repeat(63);
    for name in [
        "select",
        "user",
        "public",
        "outlast",
        "information",
        "_",
        &long,
    ] {
        let options = || Postgres::options(&database.url).unwrap().schema(name);
        let (mine, other) = (options().connect().await, options().connect().await);
        let (mine, other) = (mine.unwrap(), other.unwrap());
        let id = work::insert(&mine, task().correlation_key("k")).await;
        assert_eq!(other.find("task", "k").await.unwrap().unwrap().id, id);
        let mut listener = other
            .listen()
            .await
            .unwrap()
            .expect("the server supports notifications");
        mine.notify(Hints::now(["q".to_owned()].into()))
            .await
            .unwrap();
        let received = tokio::time::timeout(Duration::from_secs(20), listener.next()).await;
        assert!(
            received.unwrap().unwrap().queues.contains_key("q"),
            "{name}"
        );
        drop(listener);
        mine.close().await;
        other.close().await;
    }
    database.drop().await;
}

/// A role, a database or a URL may set a search path. It changes no statement.
#[tokio::test]
async fn a_search_path_and_an_application_name_change_no_statement() {
    let (schema, name) = (unique_schema(), "it's \"mine\"; --");
    let encoded = "it%27s%20%22mine%22%3B%20--";
    let url = format!(
        "{}?application_name={encoded}&options=-c%20search_path%3Dnowhere",
        url_of(|config| config)
    );
    let store = Postgres::options(&url).unwrap().schema(&schema);
    let store = store.connect().await.unwrap();
    let id = work::insert(&store, task()).await;
    assert_eq!(work::get(&store, id).await.id, id);
    let listener = store.listen().await.unwrap();
    let sql = "select count(*) from pg_stat_activity where application_name = $1";
    let row = raw().await.query_one(sql, &[&name]).await.unwrap();
    assert!(row.get::<_, i64>(0) >= 2);
    let nowhere = "select exists (select from pg_namespace where nspname = 'nowhere')";
    assert!(!value_of::<bool>(&raw().await, nowhere).await);
    drop(listener);
    store.close().await;
    drop_schema(&schema).await;
}

#[tokio::test]
async fn hints_carry_queue_names_unchanged_to_other_nodes() {
    let schema = unique_schema();
    let open = || Postgres::options(&url()).unwrap().schema(&schema).connect();
    let (mine, other) = (open().await.unwrap(), open().await.unwrap());
    let mut listener = other
        .listen()
        .await
        .unwrap()
        .expect("the server supports notifications");
    for name in [
        "'; select 1; --",
        "\"",
        "\\",
        "{a,b}",
        "日本語",
        "\u{202e}",
        " ",
    ] {
        mine.notify(Hints::now([name.to_owned()].into()))
            .await
            .unwrap();
        let received = tokio::time::timeout(Duration::from_secs(20), listener.next()).await;
        let received = received.unwrap().unwrap();
        assert_eq!(received.queues.keys().collect::<Vec<_>>(), [name]);
    }
    drop(listener);
    mine.close().await;
    other.close().await;
    drop_schema(&schema).await;
}
