//! Helpers for the tests of this store.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use outlast_core::{
    Answer, Claim, ClaimRef, ClaimRequest, Claimed, Commit, InstanceId, Json, MachineVersion,
    ManualClock, NewInstance, NewWorker, Outcome, Proceed, Store, WorkerId,
};
use outlast_sqlite::Sqlite;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// Returns a folder that is removed when it is dropped, and the path of a file in it that does not
/// exist yet.
pub(crate) fn new_path() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("outlast.db");
    (folder, path)
}

pub(crate) fn in_memory(clock: &ManualClock) -> Sqlite {
    Sqlite::options().clock(clock.clone()).in_memory().unwrap()
}

pub(crate) async fn worker(store: &Sqlite) -> WorkerId {
    let worker = NewWorker {
        name: "tester".into(),
        host: "here".into(),
        version: "1".into(),
        machines: Vec::new(),
        queues: vec!["default".into()],
        lease: Duration::from_secs(60),
    };
    store.register(worker).await.unwrap()
}

pub(crate) fn order() -> NewInstance {
    NewInstance::new("order", "start", Json::parse("{}").unwrap())
}

pub(crate) async fn insert(store: &Sqlite, rows: Vec<NewInstance>) -> Vec<InstanceId> {
    let inserts = store.insert(rows, None).await.unwrap();
    inserts
        .rows
        .iter()
        .map(|row| row.new_id().expect("its key is free"))
        .collect()
}

pub(crate) fn request(worker: WorkerId, max: usize) -> ClaimRequest {
    ClaimRequest {
        worker,
        queue: "default".into(),
        machines: [MachineVersion::new("order", 1)].into(),
        max,
    }
}

pub(crate) async fn claim(store: &Sqlite, worker: WorkerId, max: usize) -> Claimed {
    store.claim(request(worker, max)).await.unwrap()
}

pub(crate) fn ids(claims: &[Claim]) -> Vec<InstanceId> {
    claims.iter().map(|claim| claim.id).collect()
}

pub(crate) fn done(claim: ClaimRef) -> Commit {
    Commit {
        claim,
        received: Vec::new(),
        outcome: Outcome::Done {
            result: Json::null(),
        },
        answers_cancel: false,
        links: outlast_core::Links::UNKNOWN,
        events: Vec::new(),
        position: None,
        views: Vec::new(),
        replies: Vec::new(),
    }
}

pub(crate) fn next(claim: ClaimRef, state: &str, proceed: Proceed) -> Commit {
    Commit {
        claim,
        received: Vec::new(),
        outcome: Outcome::Next {
            step: "next".into(),
            state: Json::parse(state).unwrap(),
            proceed,
        },
        answers_cancel: false,
        links: outlast_core::Links::UNKNOWN,
        events: Vec::new(),
        position: None,
        views: Vec::new(),
        replies: Vec::new(),
    }
}

pub(crate) fn committed(answers: &[Answer]) -> usize {
    answers
        .iter()
        .filter(|answer| matches!(answer, Answer::Committed { .. }))
        .count()
}
