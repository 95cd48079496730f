//! Names of schemas are plain or refused at every way in; what a URL says beside them changes nothing of what statements
//! mean; names of queues travel between nodes as they are.

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
async fn a_schemas_name_is_plain_or_refused_at_every_way_in() {
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
async fn a_plain_name_may_mean_something_to_sql() {
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
            .expect("the server can notify");
        mine.notify(Hints::now(["q".to_owned()].into()))
            .await
            .unwrap();
        let heard = tokio::time::timeout(Duration::from_secs(20), listener.next()).await;
        assert!(heard.unwrap().unwrap().queues.contains_key("q"), "{name}");
        drop(listener);
        mine.close().await;
        other.close().await;
    }
    database.drop().await;
}

/// A role, a database or a URL may set a search path; statements mean the same whatever it is.
#[tokio::test]
async fn a_search_path_and_a_name_of_the_program_change_nothing() {
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
async fn queues_are_told_to_other_nodes_by_the_names_they_have() {
    let schema = unique_schema();
    let open = || Postgres::options(&url()).unwrap().schema(&schema).connect();
    let (mine, other) = (open().await.unwrap(), open().await.unwrap());
    let mut listener = other
        .listen()
        .await
        .unwrap()
        .expect("the server can notify");
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
        let heard = tokio::time::timeout(Duration::from_secs(20), listener.next()).await;
        let heard = heard.unwrap().unwrap();
        assert_eq!(heard.queues.keys().collect::<Vec<_>>(), [name]);
    }
    drop(listener);
    mine.close().await;
    other.close().await;
    drop_schema(&schema).await;
}
