//! Counts by step: all instances in slices, and the children of one instance by round.

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{
    BLOCKED, InstanceId, NO_PROGRESS, OVERDUE_AFTER, Outcome, RETRIES_ALARMING, RoundSummary,
    Status, StepCount, StepCountRequest, StepCounts, Timestamp, limits,
};
use std::time::Duration;

async fn slice(subject: &Subject, after: Option<InstanceId>, limit: usize) -> StepCounts {
    let request = StepCountRequest { after, limit };
    subject.store.count_by_step(request).await.unwrap()
}

async fn all_step_counts(subject: &Subject) -> Vec<StepCount> {
    let counts = slice(subject, None, limits::STEP_COUNT_MAX).await;
    assert_eq!(counts.next, None);
    counts.groups
}

/// Makes a count of instances of the machine that every worker here can run.
fn step_count(step: &str, status: Status, instances: u64, oldest: Timestamp) -> StepCount {
    StepCount {
        machine: "task".into(),
        version: 1,
        step: step.into(),
        status,
        instances,
        without_deadline: 0,
        overdue: 0,
        retrying: 0,
        blocked: 0,
        oldest_updated_at: oldest,
    }
}

pub async fn an_empty_store_has_no_step_counts(subject: &Subject) {
    assert_eq!(all_step_counts(subject).await, []);
}

pub async fn instances_are_counted_by_machine_version_step_and_status(subject: &Subject) {
    let worker = subject.worker().await;
    let start = subject.now();
    subject.insert_all(tasks(4)).await;
    let claims = subject.claim(worker, 3).await;
    subject.pass(seconds(5));
    subject.commit(&claims[0], done()).await;
    subject.commit(&claims[1], requeue("next")).await;
    subject.insert(task().version(2)).await;
    let now = subject.now();
    let expected = [
        step_count("next", Status::Runnable, 1, now),
        step_count("start", Status::Runnable, 1, start),
        step_count("start", Status::Executing, 1, start),
        step_count("start", Status::Done, 1, now),
        StepCount {
            version: 2,
            ..step_count("start", Status::Runnable, 1, now)
        },
    ];
    assert_eq!(all_step_counts(subject).await, expected);
}

pub async fn a_step_count_has_the_time_of_its_oldest_update(subject: &Subject) {
    let start = subject.now();
    subject.insert(task()).await;
    subject.pass(seconds(60));
    subject.insert(task()).await;
    let expected = step_count("start", Status::Runnable, 2, start);
    assert_eq!(all_step_counts(subject).await, [expected]);
}

pub async fn waits_without_a_deadline_and_overdue_waits_are_counted(subject: &Subject) {
    let worker = subject.worker().await;
    subject.insert_all(tasks(3)).await;
    let claims = subject.claim(worker, 3).await;
    let start = subject.now();
    subject.commit(&claims[0], wait_for(&["a"])).await;
    subject
        .commit(&claims[1], wait_at_most(&["a"], seconds(5)))
        .await;
    subject
        .commit(&claims[2], wait_at_most(&["a"], seconds(500)))
        .await;
    let expected = |overdue| StepCount {
        without_deadline: 1,
        overdue,
        ..step_count("waited", Status::AwaitingSignal, 3, start)
    };
    subject.pass(seconds(5) + OVERDUE_AFTER);
    assert_eq!(
        all_step_counts(subject).await,
        [expected(0)],
        "not overdue yet"
    );
    subject.pass(Duration::from_micros(1));
    assert_eq!(all_step_counts(subject).await, [expected(1)]);
}

pub async fn steps_that_are_retried_again_and_again_are_counted(subject: &Subject) {
    let worker = subject.worker().await;
    let id = subject.insert(task()).await;
    let start = subject.now();
    for attempt in 1..=RETRIES_ALARMING {
        let claim = subject.claim_the(worker, id).await;
        subject.commit(&claim, again(seconds(0))).await;
        let groups = all_step_counts(subject).await;
        let retrying = u64::from(attempt == RETRIES_ALARMING);
        let expected = StepCount {
            retrying,
            ..step_count("start", Status::Runnable, 1, start)
        };
        assert_eq!(groups, [expected]);
    }
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(
        all_step_counts(subject).await[0].retrying,
        1,
        "while it runs"
    );
    subject.commit(&claim, stop()).await;
    assert_eq!(
        all_step_counts(subject).await[0].retrying,
        0,
        "not when it has ended"
    );
}

pub async fn blocked_workflows_and_machines_without_progress_are_counted(subject: &Subject) {
    let worker = subject.worker().await;
    let retry_with = |error: &str| Outcome::Retry {
        state: json("null"),
        delay: seconds(0),
        error: Some(format!("{error}the history has another call")),
    };
    // Two instances are blocked: a workflow whose error has the prefix, and a machine without
    // progress. Two are not: a workflow with the word elsewhere, and a machine with the prefix.
    let errors = [
        (BLOCKED, 1),
        ("was blocked: ", 1),
        (BLOCKED, 0),
        (NO_PROGRESS, 0),
    ];
    subject.insert_all(tasks(errors.len())).await;
    for (claim, (error, written)) in subject.claim(worker, errors.len()).await.iter().zip(errors) {
        let added = events(written);
        subject.commit_events(claim, retry_with(error), added).await;
    }
    let groups = all_step_counts(subject).await;
    assert_eq!((groups[0].instances, groups[0].blocked), (4, 2));
    let claims = subject.claim(worker, errors.len()).await;
    let groups = all_step_counts(subject).await;
    assert_eq!(groups[0].status, Status::Executing);
    assert_eq!(groups[0].blocked, 2, "while they run");
    for claim in &claims {
        subject.commit(claim, stop()).await;
    }
    for group in all_step_counts(subject).await {
        assert_eq!(group.blocked, 0, "not when they have ended");
    }
}

pub async fn step_counts_in_slices_count_every_instance_once(subject: &Subject) {
    let ids = subject.insert_all(tasks(7)).await;
    let mut after = None;
    let mut seen = Vec::new();
    for _ in 0..3 {
        let counts = slice(subject, after, 3).await;
        seen.push(counts.groups.iter().map(|group| group.instances).sum());
        after = counts.next;
    }
    assert_eq!((seen, after), (vec![3_u64, 3, 1], None));
    let first = slice(subject, None, 3).await;
    assert_eq!(first.next, Some(ids[2]), "the last of the slice");
    let behind = slice(subject, Some(ids[6]), 3).await;
    assert_eq!(behind, StepCounts::default());
}

pub async fn children_are_counted_by_round_and_status(subject: &Subject) {
    let (worker, parent) = subject.running(task()).await;
    subject.commit(&parent, fan_out(tasks(3))).await;
    let rounds = async || subject.store.rounds(parent.id).await.unwrap();
    let round = |round, children: &[(Status, u64)]| RoundSummary {
        round,
        children: children.to_vec(),
    };
    let claims = subject.claim(worker, 2).await;
    subject.commit(&claims[0], stop()).await;
    let expected = round(
        1,
        &[
            (Status::Runnable, 1),
            (Status::Executing, 1),
            (Status::Failed, 1),
        ],
    );
    assert_eq!(rounds().await, [expected]);
    subject.commit(&claims[1], done()).await;
    let last = subject.claim_one(worker).await;
    subject.commit(&last, done()).await;
    let again = subject.claim_the(worker, parent.id).await;
    subject.commit(&again, fan_out(tasks(1))).await;
    let expected = [
        round(1, &[(Status::Done, 2), (Status::Failed, 1)]),
        round(2, &[(Status::Runnable, 1)]),
    ];
    assert_eq!(rounds().await, expected);
    let child = subject.store.rounds(claims[0].id).await.unwrap();
    assert_eq!(child, [], "a child has no rounds of its own");
    let unknown = subject.store.rounds(InstanceId(987_654_321)).await;
    assert_eq!(unknown.unwrap(), []);
}
