//! What stands in the way of a connection is said clearly, with what to do about it, and nothing is
//! half-done.

use crate::support::{
    Database, drop_schema, raw, raw_to, unique_schema, url, url_of, value_of, work,
};
use outlast_core::{Error, ErrorKind, Inspect, Store};
use outlast_postgres::{Migrations, Options, Postgres, Roles};
use outlast_testbed::cluster::{Cluster, Stop};
use std::net::TcpListener;
use std::time::Duration;

/// Asserts that connecting fails in this way and says this.
async fn assert_fails(options: Options, kind: ErrorKind, said: &str) -> Error {
    let error = options.connect().await.unwrap_err();
    assert_eq!(error.kind(), kind, "{error:?}");
    assert!(error.to_string().contains(said), "{error}");
    error
}

fn options(url: &str) -> Options {
    Postgres::options(url).unwrap()
}

async fn schema_exists(url: &str, schema: &str) -> bool {
    let query = format!("select exists (select from pg_namespace where nspname = '{schema}')");
    value_of(&raw_to(url).await, &query).await
}

#[tokio::test]
async fn a_missing_server_is_transient_and_says_what_to_check() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let url = format!("postgres://outlast@127.0.0.1:{port}/outlast");
    let said = "is PostgreSQL running there, and do host and port in the URL name it?";
    assert_fails(options(&url), ErrorKind::Transient, said).await;
    let folder = "postgres://outlast@%2Fno%2Fsuch%2Ffolder/outlast";
    assert_fails(options(folder), ErrorKind::Transient, said).await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_of_without_the_password() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    for url in [
        format!("postgres://me:hunter2@127.0.0.1:{port}/x"),
        format!("postgres://me:%68unter2@127.0.0.1:{port}/x"),
        format!("postgres://me@127.0.0.1:{port}/x?password=hunter2"),
        format!("postgres://me:hunter2@no.such.host.invalid:{port}/x"),
        format!("host=127.0.0.1 port={port} user=me password=hunter2 dbname=x"),
        format!("host=127.0.0.1 port={port} user=me password='hunter2' dbname=x"),
    ] {
        let opened = options(&url);
        let error = opened.clone().connect().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Transient, "{error:?}");
        let mut said = format!("{opened:?} {error:?}");
        let mut cause: Option<&dyn std::error::Error> = Some(&error);
        while let Some(error) = cause {
            said.push_str(&format!(" {error} {error:?}"));
            cause = error.source();
        }
        assert!(!said.contains("hunter2") && !said.contains("%68"), "{said}");
    }
}

#[tokio::test]
async fn a_server_that_never_answers_is_transient_in_bounded_time() {
    // Takes connections and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("postgres://outlast@127.0.0.1:{port}/outlast?connect_timeout=1");
    let connecting = options(&url).connect();
    let error = tokio::time::timeout(Duration::from_secs(20), connecting).await;
    let error = error.expect("it does not hang").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transient, "{error:?}");
    assert!(error.to_string().contains("is it reachable"), "{error}");
}

#[tokio::test]
async fn a_missing_database_is_named_and_to_be_created() {
    let url = url_of(|config| config.dbname("no_such_database"));
    let said = "create the database, or mend its name in the URL";
    let error = assert_fails(options(&url), ErrorKind::Invalid, said).await;
    assert!(error.to_string().contains("no_such_database"), "{error}");
}

#[tokio::test]
async fn a_wrong_password_is_refused_and_never_shown() {
    let Some(mut cluster) = Cluster::with_password("correct horse") else {
        return;
    };
    cluster.start();
    let url = |password: &str| {
        let port = cluster.port();
        format!("postgres://outlast{password}@127.0.0.1:{port}/postgres")
    };
    let said = "check the user and the password in the URL";
    let wrong = options(&url(":hunter2"));
    assert!(!format!("{wrong:?}").contains("hunter2"), "{wrong:?}");
    let error = assert_fails(wrong, ErrorKind::Invalid, said).await;
    assert!(
        !format!("{error} {error:?}").contains("hunter2"),
        "{error:?}"
    );
    let said = "check the URL's password";
    assert_fails(options(&url("")), ErrorKind::Invalid, said).await;

    let store = options(&url(":correct%20horse")).connect().await.unwrap();
    assert!(!format!("{store:?}").contains("horse"), "{store:?}");
    store.close().await;
}

#[test]
fn a_url_that_cannot_be_read_is_refused_without_its_password() {
    for url in [
        "postgres://me:hunter2@host:port/db",
        "postgres://me:hunter2@host/db?sslmode=maybe",
        "postgres://me:hunter2@host/db?no_such_option=1",
        "postgres://me:hunter2@host/db?connect_timeout=soon",
        "postgre://me:hunter2@host/db?sslmode=require",
        "mysql://me:hunter2@host/db",
        "me:hunter2@host/db",
        "host=db password=hunter2 no_such_option=1",
        "password=hunter2 port=x",
        "password='hunter2",
        "hunter2",
    ] {
        let error = Postgres::options(url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{url}");
        let said = format!("{error} {error:?}");
        assert!(said.contains("postgres://user:password@host"), "{said}");
        assert!(!said.contains("hunter2"), "{url}: {said}");
    }
}

#[tokio::test]
async fn a_database_that_is_read_only_is_refused() {
    let database = Database::create().await;
    let sql = format!(
        "alter database {} set default_transaction_read_only = on",
        database.name
    );
    raw().await.batch_execute(&sql).await.unwrap();
    let said = "turn it off for this role or database";
    assert_fails(options(&database.url), ErrorKind::Invalid, said).await;
    assert!(!schema_exists(&database.url, "outlast").await);
    database.drop().await;
}

#[tokio::test]
async fn a_standby_is_refused_and_the_primary_asked_for() {
    let Some(mut cluster) = Cluster::create() else {
        return;
    };
    cluster.start();
    cluster.stop(Stop::Fast);
    cluster.make_standby();
    cluster.start();
    let said = "name the primary";
    assert_fails(options(&cluster.url()), ErrorKind::Invalid, said).await;
}

/// What a store that was opened to look does on a server that takes no writes.
async fn assert_looks_and_writes_nothing(url: &str) {
    let store = options(url).read_only().connect().await.unwrap();
    let all = store.count(outlast_core::Filter::default()).await.unwrap();
    assert_eq!(all, outlast_core::Count::Exactly(1));
    let findings = store.doctor().await.unwrap();
    let writable = findings.iter().find(|it| it.check == "writable").unwrap();
    assert_eq!(writable.severity, outlast_core::Severity::Serious);
    assert!(!writable.remedy.is_empty());
    let error = store.insert(vec![work::task()], None).await.unwrap_err();
    assert!(error.to_string().contains("read-only"), "{error}");
    store.close().await;
}

#[tokio::test]
async fn a_database_that_is_read_only_can_be_looked_at() {
    let database = Database::create().await;
    let store = options(&database.url).connect().await.unwrap();
    work::insert(&store, work::task()).await;
    store.close().await;
    let sql = format!(
        "alter database {} set default_transaction_read_only = on",
        database.name
    );
    raw().await.batch_execute(&sql).await.unwrap();
    assert_looks_and_writes_nothing(&database.url).await;
    database.drop().await;
}

#[tokio::test]
async fn a_standby_can_be_looked_at() {
    let Some(mut cluster) = Cluster::create() else {
        return;
    };
    cluster.start();
    let store = options(&cluster.url()).connect().await.unwrap();
    work::insert(&store, work::task()).await;
    store.close().await;
    cluster.stop(Stop::Fast);
    cluster.make_standby();
    cluster.start();
    assert_looks_and_writes_nothing(&cluster.url()).await;
}

#[tokio::test]
async fn a_role_without_rights_is_told_what_it_lacks() {
    let (database, role) = (Database::create().await, unique_schema());
    let admin = raw_to(&database.url).await;
    admin
        .batch_execute(&format!("create role {role} login"))
        .await
        .unwrap();
    let url = url_of(|config| config.dbname(&database.name).user(&role));
    let said = "migrations are for the schema's owner";
    assert_fails(options(&url), ErrorKind::Invalid, said).await;
    assert!(!schema_exists(&database.url, "outlast").await);

    // Where everything is in place, no right to create is needed.
    let owner = options(&database.url).connect().await.unwrap();
    let roles = Roles::new().worker(&role);
    options(&database.url).grant(&roles).await.unwrap();
    let store = options(&url).connect().await.unwrap();
    work::running(&store).await;

    // A right that is taken away later is no fault of the data.
    let sql = format!("revoke insert on outlast.instances from {role}");
    admin.batch_execute(&sql).await.unwrap();
    let error = store.insert(vec![work::task()], None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
    let said = "permission denied for table instances; the role lacks a right";
    assert!(error.to_string().contains(said), "{error}");

    store.close().await;
    owner.close().await;
    drop(admin);
    database.drop().await;
    let sql = format!("drop role {role}");
    raw().await.batch_execute(&sql).await.unwrap();
}

#[tokio::test]
async fn an_empty_database_is_left_empty_when_only_checked() {
    let schema = unique_schema();
    let checked = || {
        let options = options(&url()).schema(&schema);
        options.migrations(Migrations::Check)
    };
    assert_fails(checked(), ErrorKind::Invalid, "run the migrations").await;
    assert_eq!(checked().schema_version().await.unwrap(), 0);
    assert!(!schema_exists(&url(), &schema).await);
    let migrated = options(&url()).schema(&schema).connect().await.unwrap();
    let store = checked().connect().await.unwrap();
    work::running(&store).await;
    store.close().await;
    migrated.close().await;
    drop_schema(&schema).await;
}

#[tokio::test]
async fn a_schema_name_that_is_not_plain_is_refused() {
    for name in ["", "Outlast", "a b", "x\"; drop schema public; --", "pg_x"] {
        let options = options(&url()).schema(name);
        let error = assert_fails(options, ErrorKind::Invalid, "is not a plain name").await;
        assert!(error.to_string().contains(&format!("{name:?}")), "{error}");
    }
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused() {
    let fresh = || options(&url());
    let said = "max_connections is 0";
    assert_fails(fresh().max_connections(0), ErrorKind::Invalid, said).await;
    let endless = fresh().lock_timeout(Duration::ZERO);
    assert_fails(endless, ErrorKind::Invalid, "lock_timeout is 0ns").await;
    let endless = fresh().statement_timeout(Duration::MAX);
    assert_fails(endless, ErrorKind::Invalid, "statement_timeout is").await;
}

#[tokio::test]
async fn a_database_that_cannot_hold_every_character_is_refused() {
    let database = Database::create_with("encoding 'LATIN1' locale 'C' template template0").await;
    let said = "create it with encoding 'UTF8'";
    let error = assert_fails(options(&database.url), ErrorKind::Invalid, said).await;
    assert!(error.to_string().contains("LATIN1"), "{error}");
    assert!(!schema_exists(&database.url, "outlast").await);
    database.drop().await;
}
