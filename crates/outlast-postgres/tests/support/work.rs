//! Short helpers for the usual calls of a store.

use outlast_core::{
    Answer, Claim, ClaimOffer, ClaimRequest, Commit, Inspect, Instance, InstanceId, Json,
    MachineVersion, NewInstance, NewWorker, Outcome, RunStats, Runs, SignalOrInsert, Store,
    Timestamp, WorkerId, minute_of,
};
use outlast_postgres::Postgres;
use std::time::Duration;

pub(crate) fn task() -> NewInstance {
    NewInstance::new("task", "start", Json::null())
}

pub(crate) async fn insert(store: &Postgres, row: NewInstance) -> InstanceId {
    let inserts = store.insert(vec![row], None).await.unwrap();
    inserts.rows[0].new_id().expect("the row is no duplicate")
}

pub(crate) async fn worker(store: &Postgres) -> WorkerId {
    let worker = NewWorker {
        name: "worker".into(),
        host: "host".into(),
        version: "1".into(),
        machines: Vec::new(),
        queues: vec!["default".into()],
        lease: Duration::from_secs(3600),
    };
    store.register(worker).await.unwrap()
}

/// The run stats of one step that ran in the minute of `moment`.
pub(crate) fn stats(moment: Timestamp) -> RunStats {
    let runs = Runs {
        minute: minute_of(moment),
        machine: "task".into(),
        version: 1,
        step: "start".into(),
        outcome: "done".into(),
        next: String::new(),
        count: 1,
        micros: 1_000,
    };
    RunStats {
        runs: vec![runs],
        delays: Vec::new(),
    }
}

pub(crate) fn request(worker: WorkerId, max: usize) -> ClaimRequest {
    ClaimRequest {
        worker,
        queue: "default".into(),
        machines: [MachineVersion::new("task", 1)].into(),
        max,
    }
}

pub(crate) fn offer(worker: WorkerId) -> ClaimOffer {
    ClaimOffer {
        worker,
        queues: vec!["default".into()],
        machines: [MachineVersion::new("task", 1)].into(),
    }
}

pub(crate) async fn claim(store: &Postgres, worker: WorkerId) -> Claim {
    let mut claims = store.claim(request(worker, 1)).await.unwrap().claims;
    claims.pop().expect("an instance can be claimed")
}

/// Inserts a task and claims it.
pub(crate) async fn running(store: &Postgres) -> Claim {
    insert(store, task()).await;
    claim(store, worker(store).await).await
}

pub(crate) fn done() -> Outcome {
    Outcome::Done {
        result: Json::null(),
    }
}

pub(crate) fn wait_for(name: &str) -> Outcome {
    Outcome::Wait {
        names: vec![name.into()],
        step: "waited".into(),
        state: Json::null(),
        timeout: None,
    }
}

/// A signal `go` for the holder of `key`, or for a new task.
pub(crate) fn go_or_start(key: &str) -> SignalOrInsert {
    SignalOrInsert {
        row: task().correlation_key(key),
        name: "go".into(),
        payload: Json::null(),
        dedup_key: Some("once".into()),
    }
}

pub(crate) fn outcome_of(claim: &Claim, outcome: Outcome) -> Vec<Commit> {
    vec![Commit::of(claim, outcome)]
}

pub(crate) async fn commit(store: &Postgres, claim: &Claim, outcome: Outcome) -> Answer {
    let mut committed = store
        .commit(outcome_of(claim, outcome).into())
        .await
        .unwrap();
    committed.answers.remove(0)
}

pub(crate) async fn get(store: &Postgres, id: InstanceId) -> Instance {
    store
        .get(id)
        .await
        .unwrap()
        .expect("the instance is stored")
}
