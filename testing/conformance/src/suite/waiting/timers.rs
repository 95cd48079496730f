//! Deadlines: a timeout is a wake, never early and not a failure (I10).

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{Fired, InstanceId, Status, WorkerId};
use std::time::Duration;

/// Makes a new task that sleeps this long.
async fn napping(subject: &Subject, worker: WorkerId, nap: Duration) -> InstanceId {
    let id = subject.insert(task().priority(-1)).await;
    let claim = subject.claim_the(worker, id).await;
    let status = subject.commit(&claim, wait_at_most(&[], nap)).await;
    assert_eq!(status, Status::Sleeping);
    id
}

async fn fire(subject: &Subject) -> Fired {
    subject.store.fire(100).await.unwrap()
}

/// I10.
pub async fn a_deadline_never_fires_early(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let outcome = wait_at_most(&["paid"], seconds(10));
    subject.commit(&claim, outcome).await;
    subject.pass(seconds(10) - Duration::from_micros(1));
    let fired = fire(subject).await;
    assert_eq!(fired.woken_instances, []);
    assert_eq!(fired.next_due_in, Some(Duration::from_micros(1)));
    subject.pass(Duration::from_micros(1));
    let fired = fire(subject).await;
    assert_eq!(fired.woken_instances, [claim.id]);
    assert!(fired.woken.contains(QUEUE));
    assert_eq!(fired.next_due_in, None);
}

pub async fn a_timeout_is_a_wake_and_not_a_failure(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    subject.commit(&claim, again(seconds(0))).await;
    let claim = subject.claim_the(worker, claim.id).await;
    let outcome = wait_at_most(&["paid"], seconds(10));
    subject.commit(&claim, outcome).await;
    let parked = subject.get(claim.id).await;
    subject.pass(seconds(12));
    fire(subject).await;
    let row = subject.get(claim.id).await;
    assert_eq!(
        (row.status, row.step.as_str()),
        (Status::Runnable, "waited")
    );
    assert_eq!((row.attempt, row.last_error), (1, None));
    assert_eq!(row.revision, parked.revision);
    assert_eq!(row.eligible_at, subject.now());
    assert_eq!((row.await_deadline, row.awaits), (None, parked.awaits));
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!(claim.awaited().count(), 0, "no signal has arrived");
    assert_eq!(claim.awaits, ["paid"]);
}

pub async fn a_timeout_hands_over_the_signals_that_have_arrived(subject: &Subject) {
    let (worker, id) = subject.parked(&["a", "b"]).await;
    subject.arrives(signal(id, "a")).await;
    let claim = subject.claim_the(worker, id).await;
    let outcome = wait_at_most(&["a", "b"], seconds(10));
    subject.commit(&claim, outcome).await;
    subject.pass(seconds(10));
    assert_eq!(fire(subject).await.woken_instances, [id]);
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(names_of(claim.awaited()), ["a"]);
}

pub async fn earlier_deadlines_fire_first(subject: &Subject) {
    let worker = subject.worker().await;
    let slow = napping(subject, worker, seconds(30)).await;
    let quick = napping(subject, worker, seconds(10)).await;
    let also_quick = napping(subject, worker, seconds(10)).await;
    subject.pass(seconds(30));
    let fired = fire(subject).await;
    assert_eq!(fired.woken_instances, [quick, also_quick, slow]);
}

pub async fn a_fire_wakes_no_more_instances_than_requested(subject: &Subject) {
    let worker = subject.worker().await;
    let mut ids = Vec::new();
    for n in [1, 2, 3] {
        ids.push(napping(subject, worker, seconds(n)).await);
    }
    subject.pass(seconds(10));
    let fired = subject.store.fire(2).await.unwrap();
    assert_eq!(fired.woken_instances, ids[..2]);
    assert_eq!(
        fired.next_due_in,
        Some(seconds(0)),
        "one deadline is overdue"
    );
    assert_eq!(fire(subject).await.woken_instances, ids[2..]);
}

pub async fn a_fire_says_when_the_next_deadline_comes(subject: &Subject) {
    let worker = subject.worker().await;
    assert_eq!(fire(subject).await, Fired::default());
    napping(subject, worker, seconds(40)).await;
    napping(subject, worker, seconds(20)).await;
    assert_eq!(fire(subject).await.next_due_in, Some(seconds(20)));
    subject.pass(seconds(20));
    assert_eq!(fire(subject).await.next_due_in, Some(seconds(20)));
}

pub async fn a_deadline_loses_against_an_earlier_signal(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    let outcome = wait_at_most(&["paid"], seconds(10));
    subject.commit(&claim, outcome).await;
    subject.arrives(signal(claim.id, "paid")).await;
    let woken = subject.get(claim.id).await;
    assert_eq!(woken.await_deadline, None);
    subject.pass(seconds(10));
    assert_eq!(fire(subject).await.woken_instances, []);
    subject.assert_unchanged(&woken).await;
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!(names_of(claim.awaited()), ["paid"]);
}

pub async fn a_signal_after_the_deadline_is_still_handed_over(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    let outcome = wait_at_most(&["paid"], seconds(10));
    subject.commit(&claim, outcome).await;
    subject.pass(seconds(10));
    fire(subject).await;
    let (_, woke) = subject.arrives(signal(claim.id, "paid")).await;
    assert!(!woke, "the deadline was first");
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!(names_of(claim.awaited()), ["paid"]);
}

pub async fn a_signal_wakes_an_instance_whose_passed_deadline_has_not_fired(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let outcome = wait_at_most(&["paid"], seconds(10));
    subject.commit(&claim, outcome).await;
    subject.pass(seconds(60));
    let (_, woke) = subject.arrives(signal(claim.id, "paid")).await;
    assert!(woke);
    assert_eq!(fire(subject).await, Fired::default());
}

pub async fn a_wait_without_names_is_a_sleep(subject: &Subject) {
    let worker = subject.worker().await;
    let id = napping(subject, worker, seconds(10)).await;
    assert_eq!(subject.get(id).await.awaits, Some(vec![]));
    let (_, woke) = subject.arrives(signal(id, "anything")).await;
    assert!(!woke);
    subject.pass(seconds(10));
    assert_eq!(fire(subject).await.woken_instances, [id]);
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(names_of(&claim.inbox), ["anything"]);
    assert_eq!(claim.awaited().count(), 0);
}

pub async fn a_wait_with_a_timeout_of_zero_is_due_at_once(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let outcome = wait_at_most(&["a"], seconds(0));
    let status = subject.commit(&claim, outcome).await;
    assert_eq!(status, Status::AwaitingSignal);
    assert_eq!(fire(subject).await.woken_instances, [claim.id]);
}

pub async fn a_wait_without_a_timeout_never_fires(subject: &Subject) {
    let (_, id) = subject.parked(&["a"]).await;
    subject.pass(outlast_core::limits::DELAY_MAX);
    assert_eq!(fire(subject).await, Fired::default());
    assert_eq!(subject.status(id).await, Status::AwaitingSignal);
}

pub async fn a_terminated_instance_does_not_fire_its_deadline(subject: &Subject) {
    let worker = subject.worker().await;
    let id = napping(subject, worker, seconds(10)).await;
    subject
        .store
        .terminate(vec![id], Extent::One, note())
        .await
        .unwrap();
    subject.pass(seconds(10));
    assert_eq!(fire(subject).await, Fired::default());
    assert_eq!(subject.status(id).await, Status::Cancelled);
}

pub async fn the_longest_delays_can_be_stored(subject: &Subject) {
    let worker = subject.worker().await;
    let longest = outlast_core::limits::DELAY_MAX;
    napping(subject, worker, longest).await;
    assert_eq!(fire(subject).await.next_due_in, Some(longest));
    subject.insert(later(task(), longest)).await;
    let claimed = subject.ask(worker, QUEUE, 1).await;
    assert_eq!(claimed.next_due_in, Some(longest));
}
