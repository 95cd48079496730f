//! Faults of a file or a disk: the error says what to do, and no write is partial.
#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

mod scene;

use outlast_core::{
    CollectRequest, Count, Error, ErrorKind, Extent, Filter, Inspect, Json, ManualClock,
    NewInstance, Note, Store, WriteCheck,
};
use outlast_sqlite::Sqlite;
use rusqlite::Connection;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

fn unusable(result: outlast_core::Result<Sqlite>) -> String {
    match result {
        Err(error @ Error::Unusable { .. }) => error.to_string(),
        other => panic!("expected the error `Unusable`, got {other:?}"),
    }
}

#[test]
fn a_file_that_is_not_sqlite_is_refused_and_left_as_it_is() {
    let (_folder, path) = scene::new_path();
    let text = "Dear diary, ".repeat(1_000);
    fs::write(&path, &text).unwrap();
    let error = unusable(Sqlite::open(&path));
    assert!(error.contains("is not an SQLite database"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_schema_of_a_newer_version_is_refused_and_left_as_it_is() {
    let (_folder, path) = scene::new_path();
    drop(Sqlite::open(&path).unwrap());
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch("update meta set value = '999' where key = 'schema_version'")
        .unwrap();
    let error = unusable(Sqlite::open(&path));
    assert!(
        error.contains("999") && error.contains("newer version"),
        "{error}"
    );
    let version: String = connection
        .query_row(
            "select value from meta where key = 'schema_version'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(version, "999");
}

#[test]
fn a_database_of_another_program_is_refused_and_left_as_it_is() {
    for foreign in ["instances", "events", "meta"] {
        let (_folder, path) = scene::new_path();
        let connection = Connection::open(&path).unwrap();
        connection
            .execute_batch(&format!("create table {foreign} (shoes text)"))
            .unwrap();
        let error = unusable(Sqlite::open(&path));
        assert!(error.contains("another program"), "{error}");
        let count = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        assert_eq!(count("select count(*) from sqlite_schema"), Ok(1));
    }
}

#[test]
fn the_error_names_a_missing_directory() {
    let (folder, _) = scene::new_path();
    let error = unusable(Sqlite::open(folder.path().join("nowhere/outlast.db")));
    assert!(error.contains("nowhere does not exist"), "{error}");
    assert!(!folder.path().join("nowhere").exists());
}

#[test]
fn a_path_that_is_a_directory_or_empty_is_refused() {
    let (folder, _) = scene::new_path();
    unusable(Sqlite::open(folder.path()));
    unusable(Sqlite::open(""));
}

/// Root may write everywhere, so a process of another user opens the file.
#[test]
fn a_read_only_file_is_refused() {
    let (folder, path) = scene::new_path();
    drop(Sqlite::open(&path).unwrap());
    fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
    set_mode(folder.path(), 0o777);
    let output = open_as_nobody(&path);
    assert!(
        output.contains("is read-only; make the file and its directory writable"),
        "{output}"
    );
}

#[test]
fn a_read_only_directory_is_refused() {
    let (folder, path) = scene::new_path();
    set_mode(folder.path(), 0o555);
    let output = open_as_nobody(&path);
    assert!(
        output.contains("the file and its directory must be readable and writable"),
        "{output}"
    );
    assert!(!path.exists());
}

/// Tried in a directory in which SQLite may write the index of its log, and in one without.
#[test]
fn a_read_only_store_can_open_a_read_only_file() {
    for mode in [0o777, 0o555] {
        let (folder, path) = scene::new_path();
        drop(Sqlite::open(&path).unwrap());
        fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
        set_mode(folder.path(), mode);
        let output = run_as_nobody("open_read_only_in_another_process", &path);
        assert!(output.contains("count Exactly(0)"), "{mode:o}: {output}");
        assert!(
            output.contains("writable Serious read-only for this user"),
            "{mode:o}: {output}"
        );
        assert!(
            output.contains("read-only; make it writable"),
            "{mode:o}: {output}"
        );
    }
}

#[tokio::test]
#[ignore = "a process that another test starts"]
async fn open_read_only_in_another_process() {
    let path = std::env::var_os("OUTLAST_TEST_PATH").expect("another test starts this process");
    let store = Sqlite::options().read_only().open(path).unwrap();
    println!("count {:?}", store.count(Filter::default()).await.unwrap());
    for finding in store.doctor().await.unwrap() {
        println!("{} {:?} {}", finding.check, finding.severity, finding.found);
    }
    let error = store.insert(vec![scene::order()], None).await.unwrap_err();
    println!("{error}");
    store.close().await;
}

#[tokio::test]
async fn a_read_only_store_needs_an_existing_file_and_writes_nothing() {
    let (_folder, path) = scene::new_path();
    unusable(Sqlite::options().read_only().open(&path));
    assert!(!path.exists(), "no file is created");
    let writing = Sqlite::open(&path).unwrap();
    let reading = Sqlite::options().read_only().open(&path).unwrap();
    scene::insert(&writing, vec![scene::order()]).await;
    let seen = reading.count(Filter::default()).await.unwrap();
    assert_eq!(
        seen,
        Count::Exactly(1),
        "the reader sees writes of other stores"
    );
    let error = reading
        .insert(vec![scene::order()], None)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    reading.close().await;
    scene::insert(&writing, vec![scene::order()]).await;
    writing.close().await;
}

fn set_mode(folder: &Path, mode: u32) {
    fs::set_permissions(folder, Permissions::from_mode(mode)).unwrap();
}

/// Opens `path` in another process, as the user `nobody` when this process runs as root. Returns
/// the output.
fn open_as_nobody(path: &Path) -> String {
    run_as_nobody("open_in_another_process", path)
}

fn run_as_nobody(test: &str, path: &Path) -> String {
    const NOBODY: u32 = 65_534;
    let mut child = Command::new("/proc/self/exe");
    child
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env("OUTLAST_TEST_PATH", path)
        .current_dir("/");
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        child.gid(NOBODY).uid(NOBODY);
    }
    let output = child.output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[ignore = "a process that another test starts"]
fn open_in_another_process() {
    let path = std::env::var_os("OUTLAST_TEST_PATH").expect("another test starts this process");
    println!("{}", unusable(Sqlite::open(path)));
}

fn bulky() -> NewInstance {
    let state = format!("\"{}\"", "x".repeat(10_000));
    NewInstance::new("order", "start", Json::parse(state).unwrap())
}

/// A size limit fails at the same places as a full disk, and no disk has to be filled.
#[tokio::test]
async fn a_full_disk_is_transient_and_the_store_continues_when_there_is_room() {
    let (_folder, path) = scene::new_path();
    let clock = ManualClock::default();
    let store = Sqlite::options()
        .clock(clock.clone())
        .size_max_bytes(2 * 1024 * 1024)
        .open(&path)
        .unwrap();
    let worker = scene::worker(&store).await;
    let kept = scene::insert(&store, vec![bulky(); 100]).await;

    let error = store.insert(vec![bulky(); 200], None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transient, "{error}");
    assert!(error.to_string().contains("make room"), "{error}");
    let all = store.count(Filter::default()).await.unwrap();
    assert_eq!(all, Count::Exactly(100), "nothing of the batch was written");

    let claims = scene::claim(&store, worker, 100).await.claims;
    assert_eq!(scene::ids(&claims), kept);
    let ends = claims.iter().map(|claim| scene::done(claim.reference()));
    let answers = store
        .commit(ends.collect::<Vec<_>>().into())
        .await
        .unwrap()
        .answers;
    assert_eq!(scene::committed(&answers), 100, "small writes still fit");
    let everything = CollectRequest {
        retention: Duration::ZERO,
        max: 1_000,
    };
    assert_eq!(store.collect(everything).await.unwrap().removed.len(), 100);
    scene::insert(&store, vec![bulky(); 100]).await;
    store.close().await;
}

#[tokio::test]
async fn check_writes_finds_a_full_database_and_later_the_freed_room() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::options()
        .size_max_bytes(1024 * 1024)
        .open(&path)
        .unwrap();
    assert_eq!(store.check_writes().await.unwrap(), WriteCheck::Works);
    // These instances end while there is room, so that they can be removed when there is none.
    let ended = scene::insert(&store, vec![bulky(); 20]).await;
    let note = Note::by("ada");
    store.terminate(ended, Extent::One, note).await.unwrap();
    while store.insert(vec![bulky()], None).await.is_ok() {}
    assert_eq!(store.check_writes().await.unwrap(), WriteCheck::DiskFull);
    let everything = CollectRequest {
        retention: Duration::ZERO,
        max: 1_000,
    };
    assert_eq!(store.collect(everything).await.unwrap().removed.len(), 20);
    assert_eq!(store.check_writes().await.unwrap(), WriteCheck::Works);
    store.close().await;
    let closed = store.check_writes().await.unwrap_err();
    assert_eq!(closed.kind(), ErrorKind::Closed);
}

#[tokio::test]
async fn a_lock_held_longer_than_the_busy_timeout_is_transient() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::options()
        .busy_timeout(Duration::from_millis(50))
        .open(&path)
        .unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("begin immediate").unwrap();
    let error = store.insert(vec![scene::order()], None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transient, "{error}");
    assert!(error.to_string().contains("another process"), "{error}");
    let all = store.count(Filter::default()).await.unwrap();
    assert_eq!(all, Count::Exactly(0), "reads work while the lock is held");

    other.execute_batch("rollback").unwrap();
    scene::insert(&store, vec![scene::order()]).await;
    store.close().await;
}

#[test]
fn a_database_locked_while_it_is_opened_is_transient() {
    let (_folder, path) = scene::new_path();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("begin exclusive").unwrap();
    let error = Sqlite::options()
        .busy_timeout(Duration::from_millis(50))
        .open(&path)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transient, "{error}");
    other.execute_batch("rollback").unwrap();
    Sqlite::open(&path).unwrap();
}

#[tokio::test]
async fn a_damaged_file_is_corrupt() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    scene::insert(&store, vec![bulky(); 50]).await;
    store.close().await;
    let mut bytes = fs::read(&path).unwrap();
    let header = 4096;
    bytes[header..].fill(0xA5);
    fs::write(&path, bytes).unwrap();
    let store = Sqlite::open(&path);
    let error = match store {
        Ok(store) => store.insert(vec![bulky(); 50], None).await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}
