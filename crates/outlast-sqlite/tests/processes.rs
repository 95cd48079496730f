//! Several processes on one file, and processes that are killed.
#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

mod scene;

use outlast_core::{
    Count, Filter, Inserted, Inspect, InstanceId, ReapRequest, Status, Store, SystemClock,
};
use outlast_sqlite::Sqlite;
use rusqlite::Connection;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Starts this test binary again, to run only the test named `role`.
fn start(role: &str, path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", role, "--ignored", "--nocapture"])
        .env("OUTLAST_TEST_PATH", path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn open_shared() -> Sqlite {
    let path = std::env::var_os("OUTLAST_TEST_PATH").expect("another test starts this process");
    Sqlite::options()
        .busy_timeout(Duration::from_secs(60))
        .open(path)
        .unwrap()
}

/// Prints a line and flushes it: output to a pipe is buffered.
fn print_line(text: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{text}").unwrap();
    out.flush().unwrap();
}

fn lines_with<'a>(child: &'a mut Child, mark: &'a str) -> impl Iterator<Item = String> + 'a {
    let out = child.stdout.take().unwrap();
    BufReader::new(out)
        .lines()
        .map(Result::unwrap)
        .filter_map(move |line| line.strip_prefix(mark).map(str::to_owned))
}

const PROCESSES: usize = 3;
const ROWS: usize = 300;

#[tokio::test]
async fn processes_that_share_a_file_claim_nothing_twice() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    let ids = scene::insert(&store, vec![scene::order(); ROWS]).await;

    let mut children: Vec<Child> = (0..PROCESSES)
        .map(|_| start("claim_and_commit", &path))
        .collect();
    let mut done = Vec::new();
    for child in &mut children {
        done.extend(lines_with(child, "done ").map(|id| InstanceId(id.parse().unwrap())));
        assert!(child.wait().unwrap().success());
    }
    done.sort();
    assert_eq!(done, ids, "each instance is claimed once");
    let ended = Filter {
        statuses: vec![Status::Done],
        ..Filter::default()
    };
    assert_eq!(
        store.count(ended).await.unwrap(),
        Count::Exactly(ROWS as u64)
    );
    store.close().await;
}

#[tokio::test]
#[ignore = "a process that another test starts"]
async fn claim_and_commit() {
    let store = open_shared();
    let worker = scene::worker(&store).await;
    loop {
        let claims = scene::claim(&store, worker, 3).await.claims;
        if claims.is_empty() {
            break;
        }
        let ends = claims.iter().map(|claim| scene::done(claim.reference()));
        let committed = store.commit(ends.collect::<Vec<_>>().into()).await.unwrap();
        assert_eq!(scene::committed(&committed.answers), claims.len());
        for claim in &claims {
            print_line(format_args!("done {}", claim.id));
        }
    }
    store.close().await;
}

/// Every insert that was acknowledged before the kill is stored (I1).
#[tokio::test]
async fn acknowledged_inserts_of_a_killed_process_are_stored() {
    let (_folder, path) = scene::new_path();
    let mut child = start("insert_for_ever", &path);
    let acknowledged: BTreeSet<InstanceId> = lines_with(&mut child, "inserted ")
        .take(200)
        .map(|id| InstanceId(id.parse().unwrap()))
        .collect();
    child.kill().unwrap();
    child.wait().unwrap();

    let connection = Connection::open(&path).unwrap();
    let check: String = connection
        .query_row("pragma integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(check, "ok");
    let store = Sqlite::open(&path).unwrap();
    for id in acknowledged {
        assert!(store.get(id).await.unwrap().is_some(), "{id} was lost");
    }
    store.close().await;
}

#[tokio::test]
#[ignore = "a process that another test starts"]
async fn insert_for_ever() {
    let store = open_shared();
    loop {
        let inserts = store.insert(vec![scene::order()], None).await.unwrap();
        let [Inserted::New { id, .. }] = inserts.rows[..] else {
            panic!("{inserts:?}");
        };
        print_line(format_args!("inserted {id}"));
    }
}

/// The claims of a killed worker return to the queue when its lease has expired.
#[tokio::test]
async fn the_claims_of_a_killed_worker_are_reaped() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    let ids = scene::insert(&store, vec![scene::order(); 5]).await;
    let mut child = start("claim_and_hang", &path);
    assert!(lines_with(&mut child, "claimed ").next().is_some());
    child.kill().unwrap();
    child.wait().unwrap();
    store.close().await;

    let later = outlast_core::ManualClock::at(
        outlast_core::Clock::now(&SystemClock) + Duration::from_secs(3600),
    );
    let store = Sqlite::options().clock(later).open(&path).unwrap();
    let reap = ReapRequest {
        max: 100,
        crashes_max: 3,
    };
    let reaped = store.reap(reap).await.unwrap();
    assert_eq!(reaped.returned, ids);
    assert_eq!(reaped.removed.len(), 1);
    let worker = scene::worker(&store).await;
    let claims = scene::claim(&store, worker, 10).await.claims;
    assert_eq!(scene::ids(&claims), ids);
    assert!(claims.iter().all(|claim| claim.crashes == 1));
    store.close().await;
}

#[tokio::test]
#[ignore = "a process that another test starts"]
async fn claim_and_hang() {
    let store = open_shared();
    let worker = scene::worker(&store).await;
    let claims = scene::claim(&store, worker, 5).await.claims;
    print_line(format_args!("claimed {}", claims.len()));
    std::future::pending::<()>().await;
}
