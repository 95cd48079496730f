//! Leases: one per worker, and no claims without a valid one.

use crate::Subject;
use crate::suite::outcomes::bad_input::{ODD_NAMES, assert_invalid, long};
use crate::vocabulary::*;
use outlast_core::{
    Answer, ClaimRequest, Error, ErrorKind, Heartbeat, MachineOffer, NewWorker, Status, WorkerId,
    limits,
};
use std::time::Duration;

async fn cannot_claim(subject: &Subject, worker: WorkerId) -> bool {
    let request = ClaimRequest {
        worker,
        queue: QUEUE.into(),
        machines: machines(),
        max: 1,
    };
    match subject.store.claim(request).await {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Conflict);
            matches!(error, Error::LeaseExpired { worker: refused, .. } if refused == worker)
        }
    }
}

fn offer(name: &str, version: i32, steps: &[&str]) -> MachineOffer {
    MachineOffer {
        name: name.into(),
        version,
        queue: "mail".into(),
        steps: steps.iter().map(ToString::to_string).collect(),
    }
}

pub async fn a_registered_worker_is_listed(subject: &Subject) {
    let new = NewWorker {
        name: "shop-1".into(),
        host: "node-a".into(),
        version: "1.2.3".into(),
        machines: vec![
            offer("mailing", 2, &["write", "send"]),
            offer("checkout", 1, &[]),
        ],
        queues: vec!["mail".into(), "default".into()],
        lease: seconds(30),
    };
    let machines = new.machines.clone();
    let id = subject.store.register(new).await.unwrap();
    let workers = subject.store.workers().await.unwrap();
    let row = &workers[0];
    assert_eq!((workers.len(), row.id), (1, id));
    assert_eq!((row.name.as_str(), row.host.as_str()), ("shop-1", "node-a"));
    assert_eq!((row.version.as_str(), row.queues.len()), ("1.2.3", 2));
    assert_eq!(row.queues[0], "mail", "in the worker's order");
    assert_eq!(row.machines, machines, "in the worker's order");
    assert_eq!(row.started_at, subject.now());
    assert_eq!(row.heartbeat_at, subject.now());
    assert_eq!(row.lease_expires_at, subject.now() + seconds(30));
}

pub async fn workers_with_the_same_name_have_different_ids(subject: &Subject) {
    let (one, two) = (subject.worker().await, subject.worker().await);
    assert!(one < two, "ids grow");
}

pub async fn a_worker_cannot_claim_from_the_moment_its_lease_expires(subject: &Subject) {
    let worker = subject.worker_with(seconds(10)).await;
    subject.pass(seconds(10) - Duration::from_micros(1));
    assert!(!cannot_claim(subject, worker).await);
    subject.pass(Duration::from_micros(1));
    assert!(cannot_claim(subject, worker).await);
}

pub async fn a_heartbeat_renews_the_lease(subject: &Subject) {
    let worker = subject.worker_with(seconds(10)).await;
    subject.pass(seconds(9));
    let beat = subject.store.heartbeat(worker, seconds(10)).await;
    assert_eq!(beat.unwrap(), Heartbeat::Renewed);
    subject.pass(seconds(9));
    assert!(!cannot_claim(subject, worker).await);
    let row = &subject.store.workers().await.unwrap()[0];
    assert_eq!(row.heartbeat_at, subject.now() - seconds(9));
    assert_eq!(row.lease_expires_at, subject.now() + seconds(1));
    assert_eq!(row.started_at, subject.now() - seconds(18));
}

/// A late worker may continue. The fence protects the claims that were reaped from it.
pub async fn a_late_heartbeat_renews_a_worker_that_was_not_removed(subject: &Subject) {
    let worker = subject.worker_with(seconds(10)).await;
    subject.pass(seconds(100));
    let beat = subject.store.heartbeat(worker, seconds(10)).await;
    assert_eq!(beat.unwrap(), Heartbeat::Renewed);
    assert!(!cannot_claim(subject, worker).await);
}

pub async fn a_heartbeat_tells_a_removed_worker_that_it_is_gone(subject: &Subject) {
    let worker = subject.worker_with(seconds(10)).await;
    subject.pass(seconds(10));
    assert_eq!(subject.reap().await.removed, [worker]);
    let beat = subject.store.heartbeat(worker, seconds(10)).await;
    assert_eq!(beat.unwrap(), Heartbeat::Gone);
    assert!(cannot_claim(subject, worker).await);
}

pub async fn a_heartbeat_can_change_the_length_of_the_lease(subject: &Subject) {
    let worker = subject.worker_with(seconds(100)).await;
    subject.store.heartbeat(worker, seconds(1)).await.unwrap();
    subject.pass(seconds(1));
    assert!(cannot_claim(subject, worker).await);
}

/// I11.
pub async fn deregistering_a_worker_without_claims_removes_its_row(subject: &Subject) {
    let (leaving, staying) = (subject.worker().await, subject.worker().await);
    subject.store.deregister(leaving).await.unwrap();
    let workers = subject.store.workers().await.unwrap();
    assert_eq!(workers.len(), 1);
    assert_eq!(workers[0].id, staying);
    assert!(cannot_claim(subject, leaving).await);
    subject.store.deregister(leaving).await.unwrap();
}

pub async fn deregistering_a_worker_with_claims_expires_its_lease(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    subject.store.deregister(worker).await.unwrap();
    assert!(cannot_claim(subject, worker).await);
    let row = &subject.store.workers().await.unwrap()[0];
    assert_eq!(row.lease_expires_at, subject.now());
    let reaped = subject.reap().await;
    assert_eq!(
        (reaped.returned, reaped.removed),
        (vec![claim.id], vec![worker])
    );
}

pub async fn deregistering_does_not_lengthen_a_lease(subject: &Subject) {
    let (worker, _) = subject.running(task()).await;
    let expired = subject.now() + LEASE;
    subject.pass(LEASE + seconds(50));
    subject.store.deregister(worker).await.unwrap();
    let row = &subject.store.workers().await.unwrap()[0];
    assert_eq!(row.lease_expires_at, expired);
}

/// The fence of an outcome is the revision, not the lease.
///
/// A late outcome counts until its claim is reaped.
pub async fn an_expired_worker_may_commit_a_claim_that_was_not_reaped(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    subject.pass(LEASE + seconds(1));
    assert_eq!(subject.commit(&claim, done()).await, Status::Done);
    assert_eq!(subject.reap().await.returned, []);
}

pub async fn inserting_with_a_claim_needs_a_lease(subject: &Subject) {
    let worker = subject.worker_with(seconds(10)).await;
    subject.pass(seconds(10));
    for worker in [worker, WorkerId(987_654)] {
        let refused = subject.store.insert(tasks(2), Some(worker)).await;
        assert!(matches!(refused, Err(Error::LeaseExpired { .. })));
    }
    let count = subject.store.count(Default::default()).await.unwrap();
    assert_eq!(count, outlast_core::Count::Exactly(0), "no row is inserted");
}

/// I11: another worker holds the claims that were released before.
pub async fn a_worker_that_released_all_its_claims_deregisters_at_once(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    subject.release(&claim, seconds(0)).await;
    subject.store.deregister(worker).await.unwrap();
    assert_eq!(subject.store.workers().await.unwrap(), []);
    let other = subject.worker().await;
    let taken = subject.claim_the(other, claim.id).await;
    assert_eq!(taken.attempt, 0);
    assert_eq!(subject.try_commit(&claim, done()).await, Answer::Lost);
}

pub async fn a_worker_with_invalid_machines_is_refused(subject: &Subject) {
    let worker = |machines| NewWorker {
        name: "w".into(),
        host: "h".into(),
        version: "1".into(),
        machines,
        queues: vec![],
        lease: LEASE,
    };
    let fine = offer("task", 1, &["start"]);
    let word = long(limits::NAME_BYTES_MAX);
    let wordy = offer("task", 1, &[word.as_str(); 100]);
    let bad = [
        vec![offer("", 1, &[])],
        vec![offer("task", 0, &[])],
        vec![offer("task", 1, &["a\u{0}"])],
        vec![offer("task", 1, &["s"; limits::STEPS_MAX + 1])],
        vec![fine.clone(); limits::MACHINES_MAX + 1],
        vec![wordy; 20],
    ];
    for machines in bad {
        assert_invalid(subject.store.register(worker(machines)).await);
    }
    assert_eq!(subject.store.workers().await.unwrap(), []);
    let odd = offer("日本 \"x\"", 7, ODD_NAMES);
    let accepted = vec![fine, odd];
    subject
        .store
        .register(worker(accepted.clone()))
        .await
        .unwrap();
    assert_eq!(subject.store.workers().await.unwrap()[0].machines, accepted);
}
