//! Retention: instances that finished long ago are removed with all their rows.

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{
    CollectRequest, Collected, DeleteAnswer, InstanceId, Outcome, Status, WorkerId,
};

const DAY: u64 = 24 * 3600;

async fn collect(subject: &Subject, days: u64) -> Collected {
    collect_at_most(subject, days, 100).await
}

async fn collect_at_most(subject: &Subject, days: u64, max: usize) -> Collected {
    let request = CollectRequest {
        retention: seconds(days * DAY),
        max,
    };
    subject.store.collect(request).await.unwrap()
}

async fn ended(subject: &Subject, worker: WorkerId, outcome: Outcome) -> InstanceId {
    let id = subject.insert(task().priority(-1)).await;
    let claim = subject.claim_the(worker, id).await;
    subject.commit(&claim, outcome).await;
    id
}

async fn is_stored(subject: &Subject, id: InstanceId) -> bool {
    subject.store.get(id).await.unwrap().is_some()
}

/// I1.
pub async fn an_instance_is_collected_when_its_retention_is_over(subject: &Subject) {
    let worker = subject.worker_with(seconds(DAY)).await;
    let old = ended(subject, worker, done()).await;
    subject.pass(seconds(3600));
    let newer = ended(subject, worker, done()).await;
    subject.pass(seconds(DAY) - seconds(3600));
    let collected = collect(subject, 1).await;
    assert_eq!(collected.removed, [old]);
    assert!(!collected.more);
    assert!(!is_stored(subject, old).await && is_stored(subject, newer).await);
    subject.pass(seconds(3600));
    assert_eq!(collect(subject, 1).await.removed, [newer]);
}

pub async fn only_ended_instances_are_collected(subject: &Subject) {
    let worker = subject.worker_with(seconds(DAY)).await;
    let mut old = Vec::new();
    for outcome in [done(), stop(), cancel()] {
        old.push(ended(subject, worker, outcome).await);
    }
    let live = subject.insert_all(tasks(4)).await;
    let claims = subject.claim(worker, 3).await;
    subject.commit(&claims[0], wait_for(&["x"])).await;
    let child = task().queue("elsewhere");
    subject.commit(&claims[1], fan_out(vec![child])).await;
    subject.pass(seconds(400 * DAY));
    assert_eq!(collect(subject, 1).await.removed, old);
    for id in live {
        assert!(is_stored(subject, id).await, "I1: {id} is alive");
    }
}

/// Defect 6 (docs/protocol.md): results were collected before the join.
pub async fn children_are_spared_while_their_parent_lives(subject: &Subject) {
    let (worker, parent) = subject.running(task()).await;
    subject.commit(&parent, fan_out(tasks(2))).await;
    let children = subject.claim(worker, 2).await;
    subject.commit(&children[0], done()).await;
    subject.pass(seconds(2 * DAY));
    assert_eq!(collect(subject, 1).await.removed, []);
    subject.commit(&children[1], done()).await;

    let worker = subject.worker().await;
    let joined = subject.claim_the(worker, parent.id).await;
    assert_eq!(joined.children.len(), 2);
    subject.commit(&joined, done()).await;
    let spared = vec![children[0].id];
    assert_eq!(
        collect(subject, 1).await.removed,
        spared,
        "the parent has ended"
    );
}

/// Children of every round are kept: `cx.all_children()` returns every stored child.
pub async fn children_of_older_rounds_are_spared_too(subject: &Subject) {
    let (worker, parent) = subject.running(task()).await;
    subject.commit(&parent, fan_out(tasks(1))).await;
    let child = subject.claim_one(worker).await;
    subject.commit(&child, done()).await;
    let joined = subject.claim_the(worker, parent.id).await;
    subject.commit(&joined, wait_for(&["x"])).await;
    subject.pass(seconds(2 * DAY));
    assert_eq!(collect(subject, 1).await.removed, []);
    subject
        .store
        .terminate(vec![parent.id], Extent::One, note())
        .await
        .unwrap();
    let both = vec![child.id, parent.id];
    assert_eq!(collect(subject, 0).await.removed, both);
}

pub async fn children_without_a_stored_parent_are_collected(subject: &Subject) {
    let (worker, parent) = subject.running(task()).await;
    subject.commit(&parent, fan_out(tasks(1))).await;
    subject
        .store
        .terminate(vec![parent.id], Extent::One, note())
        .await
        .unwrap();
    assert_eq!(collect(subject, 0).await.removed, [parent.id]);
    let child = subject.claim_one(worker).await;
    assert_eq!(child.parent.map(|it| it.id), Some(parent.id));
    subject.commit(&child, done()).await;
    assert_eq!(collect(subject, 0).await.removed, [child.id]);
}

/// I7.
pub async fn signals_and_tombstones_are_removed_with_their_instance(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    subject.arrives(signal(claim.id, "a").dedup_key("k")).await;
    subject.commit(&claim, done()).await;
    assert_eq!(subject.signals(claim.id).await.len(), 1);
    collect(subject, 0).await;
    assert_eq!(subject.signals(claim.id).await, []);
}

pub async fn operations_are_removed_with_their_instance(subject: &Subject) {
    let id = subject.insert(task()).await;
    let other = subject.insert(task()).await;
    subject
        .store
        .terminate(vec![id, other], Extent::One, note())
        .await
        .unwrap();
    subject.store.retry(vec![other], note()).await.unwrap();
    subject.pass(seconds(1));
    collect(subject, 0).await;
    assert_eq!(subject.store.operations(Some(id)).await.unwrap(), []);
    let kept = subject.store.operations(Some(other)).await.unwrap();
    assert_eq!(kept.len(), 2, "the other instance lives");
}

pub async fn records_of_queues_and_deleted_instances_are_removed_by_age(subject: &Subject) {
    let worker = subject.worker().await;
    subject.store.pause(QUEUE, note()).await.unwrap();
    subject.store.resume(QUEUE, note()).await.unwrap();
    let id = ended(subject, worker, stop()).await;
    let deleted = subject.store.delete(vec![id], note()).await.unwrap();
    assert_eq!(deleted, [DeleteAnswer::Deleted]);
    subject.pass(seconds(DAY) - seconds(1));
    collect(subject, 1).await;
    assert_eq!(subject.store.operations(None).await.unwrap().len(), 3);
    subject.pass(seconds(1));
    collect(subject, 1).await;
    assert_eq!(subject.store.operations(None).await.unwrap(), []);
}

pub async fn a_collect_removes_no_more_instances_than_requested(subject: &Subject) {
    let worker = subject.worker().await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(ended(subject, worker, done()).await);
        subject.pass(seconds(1));
    }
    let first = collect_at_most(subject, 0, 2).await;
    assert_eq!(first.removed, ids[..2], "earliest end first");
    assert!(first.more);
    let rest = collect_at_most(subject, 0, 100).await;
    assert_eq!(rest.removed, ids[2..]);
    assert!(!rest.more);
}

pub async fn a_retried_instance_is_not_collected(subject: &Subject) {
    let worker = subject.worker().await;
    let id = ended(subject, worker, stop()).await;
    subject.pass(seconds(2 * DAY));
    subject.store.retry(vec![id], note()).await.unwrap();
    assert_eq!(collect(subject, 1).await.removed, []);
    assert_eq!(subject.status(id).await, Status::Runnable);
}

pub async fn collecting_an_empty_store_finds_nothing(subject: &Subject) {
    assert_eq!(collect(subject, 0).await, Collected::default());
}
