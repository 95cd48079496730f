//! A connection that fails gives an error that names the cause and the remedy, and changes
//! nothing.

use crate::support::{
    Database, drop_schema, raw, raw_to, unique_schema, url, url_of, value_of, work,
};
use outlast_core::{Error, ErrorKind, Inspect, Store};
use outlast_postgres::{Migrations, Options, Postgres, Roles};
use outlast_testbed::cluster::{Cluster, Stop};
use std::net::TcpListener;
use std::time::Duration;

/// Asserts that connecting fails with an error of this kind and with this text.
async fn assert_fails(options: Options, kind: ErrorKind, message: &str) -> Error {
    let error = options.connect().await.unwrap_err();
    assert_eq!(error.kind(), kind, "{error:?}");
    assert!(error.to_string().contains(message), "{error}");
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
async fn a_missing_server_gives_a_transient_error_that_says_what_to_check() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let url = format!("postgres://outlast@127.0.0.1:{port}/outlast");
    let message = "is PostgreSQL running there, and do host and port in the URL name it?";
    assert_fails(options(&url), ErrorKind::Transient, message).await;
    let folder = "postgres://outlast@%2Fno%2Fsuch%2Ffolder/outlast";
    assert_fails(options(folder), ErrorKind::Transient, message).await;
}

#[tokio::test]
async fn the_error_for_a_missing_server_does_not_show_the_password() {
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
        let mut message = format!("{opened:?} {error:?}");
        let mut cause: Option<&dyn std::error::Error> = Some(&error);
        while let Some(error) = cause {
            message.push_str(&format!(" {error} {error:?}"));
            cause = error.source();
        }
        assert!(
            !message.contains("hunter2") && !message.contains("%68"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn a_server_that_never_answers_gives_a_transient_error_in_bounded_time() {
    // It accepts connections and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("postgres://outlast@127.0.0.1:{port}/outlast?connect_timeout=1");
    let connecting = options(&url).connect();
    let error = tokio::time::timeout(Duration::from_secs(20), connecting).await;
    let error = error.expect("connecting ends in time").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transient, "{error:?}");
    assert!(error.to_string().contains("is it reachable"), "{error}");
}

#[tokio::test]
async fn the_error_for_a_missing_database_names_it_and_says_to_create_it() {
    let url = url_of(|config| config.dbname("no_such_database"));
    let message = "create the database, or mend its name in the URL";
    let error = assert_fails(options(&url), ErrorKind::Invalid, message).await;
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
    let message = "check the user and the password in the URL";
    let wrong = options(&url(":hunter2"));
    assert!(!format!("{wrong:?}").contains("hunter2"), "{wrong:?}");
    let error = assert_fails(wrong, ErrorKind::Invalid, message).await;
    assert!(
        !format!("{error} {error:?}").contains("hunter2"),
        "{error:?}"
    );
    let message = "check the URL's password";
    assert_fails(options(&url("")), ErrorKind::Invalid, message).await;

    let store = options(&url(":correct%20horse")).connect().await.unwrap();
    assert!(!format!("{store:?}").contains("horse"), "{store:?}");
    store.close().await;
}

#[test]
fn an_unreadable_url_is_refused_without_showing_its_password() {
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
        let message = format!("{error} {error:?}");
        assert!(
            message.contains("postgres://user:password@host"),
            "{message}"
        );
        assert!(!message.contains("hunter2"), "{url}: {message}");
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
    let message = "turn it off for this role or database";
    assert_fails(options(&database.url), ErrorKind::Invalid, message).await;
    assert!(!schema_exists(&database.url, "outlast").await);
    database.drop().await;
}

#[tokio::test]
async fn a_standby_is_refused_with_the_advice_to_name_the_primary() {
    let Some(mut cluster) = Cluster::create() else {
        return;
    };
    cluster.start();
    cluster.stop(Stop::Fast);
    cluster.make_standby();
    cluster.start();
    let message = "name the primary";
    assert_fails(options(&cluster.url()), ErrorKind::Invalid, message).await;
}

/// Asserts that a read-only store reads from a server that takes no writes, and writes nothing.
async fn assert_reads_and_writes_nothing(url: &str) {
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
async fn a_read_only_store_reads_a_read_only_database() {
    let database = Database::create().await;
    let store = options(&database.url).connect().await.unwrap();
    work::insert(&store, work::task()).await;
    store.close().await;
    let sql = format!(
        "alter database {} set default_transaction_read_only = on",
        database.name
    );
    raw().await.batch_execute(&sql).await.unwrap();
    assert_reads_and_writes_nothing(&database.url).await;
    database.drop().await;
}

#[tokio::test]
async fn a_read_only_store_reads_a_standby() {
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
    assert_reads_and_writes_nothing(&cluster.url()).await;
}

#[tokio::test]
async fn the_error_for_a_role_without_rights_says_what_it_lacks() {
    let (database, role) = (Database::create().await, unique_schema());
    let admin = raw_to(&database.url).await;
    admin
        .batch_execute(&format!("create role {role} login"))
        .await
        .unwrap();
    let url = url_of(|config| config.dbname(&database.name).user(&role));
    let message = "migrations are for the schema's owner";
    assert_fails(options(&url), ErrorKind::Invalid, message).await;
    assert!(!schema_exists(&database.url, "outlast").await);

    // With a complete schema the role needs no right to create objects.
    let owner = options(&database.url).connect().await.unwrap();
    let roles = Roles::new().worker(&role);
    options(&database.url).grant(&roles).await.unwrap();
    let store = options(&url).connect().await.unwrap();
    work::running(&store).await;

    // A right that is revoked later is not reported as corrupt data.
    let sql = format!("revoke insert on outlast.instances from {role}");
    admin.batch_execute(&sql).await.unwrap();
    let error = store.insert(vec![work::task()], None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
    let message = "permission denied for table instances; the role lacks a right";
    assert!(error.to_string().contains(message), "{error}");

    store.close().await;
    owner.close().await;
    drop(admin);
    database.drop().await;
    let sql = format!("drop role {role}");
    raw().await.batch_execute(&sql).await.unwrap();
}

#[tokio::test]
async fn checking_the_migrations_leaves_an_empty_database_empty() {
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
    let message = "max_connections is 0";
    assert_fails(fresh().max_connections(0), ErrorKind::Invalid, message).await;
    let endless = fresh().lock_timeout(Duration::ZERO);
    assert_fails(endless, ErrorKind::Invalid, "lock_timeout is 0ns").await;
    let endless = fresh().statement_timeout(Duration::MAX);
    assert_fails(endless, ErrorKind::Invalid, "statement_timeout is").await;
}

#[tokio::test]
async fn a_database_that_cannot_hold_every_character_is_refused() {
    let database = Database::create_with("encoding 'LATIN1' locale 'C' template template0").await;
    let message = "create it with encoding 'UTF8'";
    let error = assert_fails(options(&database.url), ErrorKind::Invalid, message).await;
    assert!(error.to_string().contains("LATIN1"), "{error}");
    assert!(!schema_exists(&database.url, "outlast").await);
    database.drop().await;
}
