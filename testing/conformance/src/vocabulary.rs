//! Helpers of the rules: short names for common calls.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the rule")]

mod family;
mod flows;

pub(crate) use family::*;
pub(crate) use flows::*;

use crate::Subject;
use outlast_core::{
    Answer, Claim, ClaimOffer, ClaimRef, ClaimRequest, Claimed, Clock, Commit, Committed,
    Delivered, Delivery, HeldClaim, Inserted, Instance, InstanceId, Join, Json, MachineVersion,
    NewInstance, NewSignal, NewWorker, Note, Outcome, Proceed, ReapRequest, Reaped, Release,
    ReleaseAnswer, RepairAnswer, RepairNeed, RepairScope, Revision, SignalId, SignalRow, Start,
    Status, Target, Timestamp, WorkerId,
};
use std::sync::Arc;
use std::time::Duration;

/// The duration of the leases of [`Subject::worker`].
pub(crate) const LEASE: Duration = Duration::from_secs(60);

/// The default queue of instances.
pub(crate) const QUEUE: &str = "default";

pub(crate) fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).expect("a rule's JSON is well-formed")
}

/// Makes an instance of the machine that every worker here can run.
pub(crate) fn task() -> NewInstance {
    NewInstance::new("task", "start", json("{}"))
}

/// Makes `n` tasks that differ in their state.
pub(crate) fn tasks(n: usize) -> Vec<NewInstance> {
    (0..n)
        .map(|i| NewInstance::new("task", "start", json(&i.to_string())))
        .collect()
}

/// The machines that the workers here can run.
pub(crate) fn machines() -> Arc<[MachineVersion]> {
    [MachineVersion::new("task", 1)].into()
}

/// The offer of a worker that claims woken instances of the default queue.
pub(crate) fn offer(worker: WorkerId) -> ClaimOffer {
    ClaimOffer {
        worker,
        queues: vec![QUEUE.into()],
        machines: machines(),
    }
}

pub(crate) fn note() -> Note {
    Note::by("ada").because("a rule asks for it")
}

pub(crate) fn keep(step: &str) -> Outcome {
    Outcome::Next {
        step: step.into(),
        state: json(r#"{"at":"next"}"#),
        proceed: Proceed::KeepClaim,
    }
}

pub(crate) fn requeue(step: &str) -> Outcome {
    Outcome::Next {
        step: step.into(),
        state: json(r#"{"at":"next"}"#),
        proceed: Proceed::Requeue,
    }
}

pub(crate) fn again(delay: Duration) -> Outcome {
    Outcome::Retry {
        state: json(r#"{"at":"retry"}"#),
        delay,
        error: None,
    }
}

pub(crate) fn wait_for(names: &[&str]) -> Outcome {
    Outcome::Wait {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        step: "waited".into(),
        state: json(r#"{"at":"wait"}"#),
        timeout: None,
    }
}

pub(crate) fn wait_at_most(names: &[&str], limit: Duration) -> Outcome {
    Outcome::Wait {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        step: "waited".into(),
        state: json(r#"{"at":"wait"}"#),
        timeout: Some(limit),
    }
}

pub(crate) fn fan_out(children: Vec<NewInstance>) -> Outcome {
    fan_out_with(children, Join::default())
}

pub(crate) fn done() -> Outcome {
    Outcome::Done {
        result: json(r#"{"well":true}"#),
    }
}

pub(crate) fn stop() -> Outcome {
    Outcome::fail("out of paper")
}

/// A failure with an error value.
pub(crate) fn fail_with(error: &str) -> Outcome {
    Outcome::Fail {
        reason: "out of paper".into(),
        error: Some(json(error)),
    }
}

pub(crate) fn cancel() -> Outcome {
    Outcome::Cancel {
        reason: "no longer wanted".into(),
    }
}

/// Makes the commit of `claim`, whose step received the signals it awaited.
pub(crate) fn commit_of(claim: &Claim, outcome: Outcome) -> Commit {
    Commit::of(claim, outcome)
}

pub(crate) fn signal(target: InstanceId, name: &str) -> NewSignal {
    NewSignal::new(Target::Id(target), name, json(r#"{"v":1}"#))
}

/// Makes a signal to the holder of a correlation key.
pub(crate) fn signal_to_key(key: &str, name: &str) -> NewSignal {
    let target = Target::Key {
        machine: "task".into(),
        key: key.into(),
    };
    NewSignal::new(target, name, json(r#"{"v":1}"#))
}

/// Returns the names of the signals that a step received.
pub(crate) fn names_of<'a>(
    signals: impl IntoIterator<Item = &'a outlast_core::Signal>,
) -> Vec<&'a str> {
    signals
        .into_iter()
        .map(|signal| signal.name.as_str())
        .collect()
}

pub(crate) fn ids_of(claims: &[Claim]) -> Vec<InstanceId> {
    claims.iter().map(|claim| claim.id).collect()
}

impl Subject {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }

    /// Registers a worker with a lease of a minute.
    pub(crate) async fn worker(&self) -> WorkerId {
        self.worker_with(LEASE).await
    }

    pub(crate) async fn worker_with(&self, lease: Duration) -> WorkerId {
        let worker = NewWorker {
            name: "worker".into(),
            host: "host".into(),
            version: "1.0".into(),
            machines: Vec::new(),
            queues: vec![QUEUE.into()],
            lease,
        };
        self.store.register(worker).await.unwrap()
    }

    /// Inserts an instance that is no duplicate.
    pub(crate) async fn insert(&self, row: NewInstance) -> InstanceId {
        self.insert_all(vec![row]).await[0]
    }

    /// Inserts several instances that are no duplicates.
    pub(crate) async fn insert_all(&self, rows: Vec<NewInstance>) -> Vec<InstanceId> {
        let inserts = self.store.insert(rows, None).await.unwrap();
        let id = |row: &Inserted| row.new_id().expect("the row is no duplicate");
        inserts.rows.iter().map(id).collect()
    }

    /// Inserts an instance and returns the answer.
    pub(crate) async fn try_insert(&self, row: NewInstance) -> Inserted {
        let mut inserts = self.store.insert(vec![row], None).await.unwrap();
        inserts.rows.remove(0)
    }

    pub(crate) async fn ask(&self, worker: WorkerId, queue: &str, max: usize) -> Claimed {
        let request = ClaimRequest {
            worker,
            queue: queue.into(),
            machines: machines(),
            max,
        };
        self.store.claim(request).await.unwrap()
    }

    /// Claims from the default queue.
    pub(crate) async fn claim(&self, worker: WorkerId, max: usize) -> Vec<Claim> {
        self.ask(worker, QUEUE, max).await.claims
    }

    /// Claims from the default queue and returns the ids.
    pub(crate) async fn claim_ids(&self, worker: WorkerId, max: usize) -> Vec<InstanceId> {
        ids_of(&self.claim(worker, max).await)
    }

    /// Claims the first instance of the default queue.
    pub(crate) async fn claim_one(&self, worker: WorkerId) -> Claim {
        let mut claims = self.claim(worker, 1).await;
        claims.pop().expect("an instance can be claimed")
    }

    /// Claims the first instance of the default queue, which must be `id`.
    pub(crate) async fn claim_the(&self, worker: WorkerId, id: InstanceId) -> Claim {
        let claim = self.claim_one(worker).await;
        assert_eq!(claim.id, id, "another instance was claimed first");
        claim
    }

    /// Claims again and again until a claim takes an instance, which must be this one.
    pub(crate) async fn claim_until(&self, worker: WorkerId, id: InstanceId) -> Claim {
        for _ in 0..20 {
            if let Some(claim) = self.claim(worker, 1).await.pop() {
                assert_eq!(claim.id, id, "another instance was claimed first");
                return claim;
            }
        }
        panic!("20 claims have not found instance {id}");
    }

    /// Registers a worker and claims a new task for it.
    pub(crate) async fn running(&self, row: NewInstance) -> (WorkerId, Claim) {
        let worker = self.worker().await;
        let id = self.insert(row).await;
        (worker, self.claim_the(worker, id).await)
    }

    /// Registers a worker and parks a new task on `names`.
    pub(crate) async fn parked(&self, names: &[&str]) -> (WorkerId, InstanceId) {
        let (worker, claim) = self.running(task()).await;
        let status = self.commit(&claim, wait_for(names)).await;
        assert_eq!(status, Status::AwaitingSignal);
        (worker, claim.id)
    }

    /// Commits an outcome that must be written, and returns the new status.
    pub(crate) async fn commit(&self, claim: &Claim, outcome: Outcome) -> Status {
        match self.try_commit(claim, outcome).await {
            Answer::Committed { status, .. } => status,
            answer @ (Answer::Cancel(_) | Answer::Lost | Answer::Rejected(_)) => {
                panic!("the outcome of {} was not committed: {answer:?}", claim.id)
            }
        }
    }

    pub(crate) async fn try_commit(&self, claim: &Claim, outcome: Outcome) -> Answer {
        let mut committed = self.commit_all(vec![commit_of(claim, outcome)]).await;
        committed.answers.remove(0)
    }

    pub(crate) async fn commit_all(&self, commits: Vec<Commit>) -> Committed {
        let rows = commits.len();
        let committed = self.store.commit(commits.into()).await.unwrap();
        assert_eq!(committed.answers.len(), rows, "each outcome has one answer");
        committed
    }

    /// Finishes all of `claims` as done, in one batch.
    pub(crate) async fn finish_all(&self, claims: &[Claim]) {
        let commits = claims.iter().map(|claim| commit_of(claim, done()));
        let committed = self.commit_all(commits.collect()).await;
        for answer in committed.answers {
            assert!(matches!(answer, Answer::Committed { .. }), "{answer:?}");
        }
    }

    pub(crate) async fn release(&self, claim: &Claim, pause: Duration) -> ReleaseAnswer {
        let release = Release {
            claim: claim.reference(),
            pause,
        };
        self.store.release(vec![release]).await.unwrap().answers[0]
    }

    pub(crate) async fn claims_of(&self, worker: WorkerId) -> Vec<ClaimRef> {
        self.held_claims(worker)
            .await
            .into_iter()
            .map(|it| it.claim)
            .collect()
    }

    /// Returns the claims of a worker with their unanswered cancels.
    pub(crate) async fn held_claims(&self, worker: WorkerId) -> Vec<HeldClaim> {
        self.store.claims_of(worker).await.unwrap()
    }

    pub(crate) async fn deliver(&self, signal: NewSignal) -> Delivery {
        self.store
            .deliver(vec![signal], None)
            .await
            .unwrap()
            .answers[0]
    }

    /// Delivers signals and claims for the worker, from the default queue.
    pub(crate) async fn deliver_for(&self, worker: WorkerId, signals: Vec<NewSignal>) -> Delivered {
        let delivered = self.store.deliver(signals, Some(offer(worker))).await;
        delivered.unwrap()
    }

    /// Delivers a signal that must arrive. Returns its id and whether it woke its target.
    pub(crate) async fn arrives(&self, signal: NewSignal) -> (SignalId, bool) {
        match self.deliver(signal).await {
            Delivery::Delivered { id, woke, .. } => (id, woke),
            answer @ (Delivery::Duplicate { .. }
            | Delivery::NoTarget
            | Delivery::InboxFull { .. }) => panic!("not delivered: {answer:?}"),
        }
    }

    /// Reaps all expired workers. Five crashes are allowed.
    pub(crate) async fn reap(&self) -> Reaped {
        let request = ReapRequest {
            max: 10_000,
            crashes_max: 5,
        };
        self.store.reap(request).await.unwrap()
    }

    pub(crate) async fn get(&self, id: InstanceId) -> Instance {
        self.store
            .get(id)
            .await
            .unwrap()
            .expect("the instance is stored")
    }

    pub(crate) async fn status(&self, id: InstanceId) -> Status {
        self.get(id).await.status
    }

    pub(crate) async fn signals(&self, id: InstanceId) -> Vec<SignalRow> {
        self.store.signals(id, None).await.unwrap().rows
    }

    /// Returns the names of the stored, unconsumed signals.
    pub(crate) async fn inbox(&self, id: InstanceId) -> Vec<String> {
        let signals = self.signals(id).await.into_iter();
        signals
            .filter(|signal| signal.consumed_at.is_none())
            .map(|signal| signal.name)
            .collect()
    }

    /// Asserts that the row equals `before`.
    pub(crate) async fn assert_unchanged(&self, before: &Instance) {
        assert_eq!(&self.get(before.id).await, before, "the row changed");
    }

    /// Asserts that no instance needs a repair.
    pub(crate) async fn assert_sound(&self) {
        assert_eq!(self.needing_repair().await, []);
    }

    /// Returns the instances that need a repair.
    pub(crate) async fn needing_repair(&self) -> Vec<(InstanceId, RepairNeed)> {
        let scope = RepairScope::Page {
            after: None,
            max: 100_000,
        };
        self.store.needing_repair(scope).await.unwrap().found
    }

    /// Repairs one instance as the reconciler.
    pub(crate) async fn repair(&self, id: InstanceId) -> RepairAnswer {
        let note = Note::by("reconciler");
        self.store.repair(vec![id], note).await.unwrap().answers[0]
    }
}

/// The revision of the first claim on a new row.
pub(crate) const FIRST_CLAIM: Revision = Revision(1);

/// Delays the start of a new instance.
pub(crate) fn later(row: NewInstance, delay: Duration) -> NewInstance {
    row.start(Start::After(delay))
}
