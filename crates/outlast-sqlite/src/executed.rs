//! Every file under `sql/` is executed by a test, and not only prepared.
//!
//! A statement can fit the schema and still fail when it runs: by a type, a constraint or the
//! number of its values. In this crate's own tests, `tx.rs` and `inspect.rs` record here which
//! statements have run.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::Sqlite;
use outlast_conformance::{Subject, try_broad_rules};
use outlast_core::{
    Answer, Claim, ClaimRequest, Commit, Inspect, InstanceId, Join, Json, MachineVersion,
    ManualClock, NewInstance, NewWorker, Note, Outcome, RepairAnswer, RepairNeed, Store,
};
use rusqlite::{Connection, Statement, StatementStatus};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The texts of the statements that have run in this process.
static TEXTS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Records a statement if it has run at least once.
pub(crate) fn record_run(sql: &str, statement: &Statement<'_>) {
    let mut texts = texts();
    if statement.get_status(StatementStatus::Run) > 0 && !texts.contains(sql) {
        texts.insert(sql.to_owned());
    }
}

fn texts() -> MutexGuard<'static, BTreeSet<String>> {
    TEXTS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[tokio::test]
async fn every_statement_is_executed() {
    try_broad_rules(|| async {
        let clock = ManualClock::default();
        let store = Sqlite::options().clock(clock.clone()).in_memory();
        Subject::new(store.unwrap(), clock)
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("outlast.db");
    let store = Sqlite::open(&path).unwrap();
    store.doctor().await.unwrap();
    a_join_is_repaired(&store, &path).await;
    an_unreadable_row_is_failed(&store, &path).await;
    store.close().await;

    let executed = texts();
    let never = files().filter(|path| !executed.contains(&fs::read_to_string(path).unwrap()));
    let never: Vec<_> = never.collect();
    assert!(never.is_empty(), "nothing here executes {never:#?}");
}

/// Returns the files under `sql/`.
fn files() -> impl Iterator<Item = PathBuf> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("sql")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    files.into_iter()
}

fn task() -> NewInstance {
    NewInstance::new("task", "start", Json::null())
}

async fn insert(store: &Sqlite) -> InstanceId {
    let inserts = store.insert(vec![task()], None).await.unwrap();
    inserts.rows[0].new_id().unwrap()
}

async fn claim(store: &Sqlite) -> Vec<Claim> {
    let worker = NewWorker {
        name: "worker".into(),
        host: "host".into(),
        version: "1.0".into(),
        machines: Vec::new(),
        queues: vec!["default".into()],
        lease: Duration::from_secs(3600),
    };
    let request = ClaimRequest {
        worker: store.register(worker).await.unwrap(),
        queue: "default".into(),
        machines: [MachineVersion::new("task", 1)].into(),
        max: 10,
    };
    store.claim(request).await.unwrap().claims
}

/// No verb leaves a wrong count, so it is made by hand.
async fn a_join_is_repaired(store: &Sqlite, path: &Path) {
    let parent = insert(store).await;
    let fan_out = Outcome::FanOut {
        children: vec![task(), task()],
        join: Join::default(),
        step: "joined".into(),
        state: Json::null(),
    };
    let commits = vec![Commit::of(&claim(store).await[0], fan_out)];
    let answers = store.commit(commits.into()).await.unwrap().answers;
    assert!(matches!(answers[0], Answer::Committed { .. }));
    by_hand(
        path,
        "update instances set children_pending = 9 where round = 1",
    );
    let repaired = store.repair(vec![parent], Note::by("ada")).await.unwrap();
    let counted = RepairAnswer::Repaired(RepairNeed::ChildrenMiscounted);
    assert_eq!(repaired.answers, [counted]);
}

async fn an_unreadable_row_is_failed(store: &Sqlite, path: &Path) {
    let id = insert(store).await;
    by_hand(
        path,
        &format!("update instances set awaits = '[1]' where id = {id}"),
    );
    let claims = claim(store).await;
    assert!(claims.iter().all(|claim| claim.id != id));
}

fn by_hand(path: &Path, sql: &str) {
    let connection = Connection::open(path).unwrap();
    let sql = format!("pragma ignore_check_constraints = on; {sql}");
    connection.execute_batch(&sql).unwrap();
}
